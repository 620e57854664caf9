//go:build unix

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mopslock/mopslock/tests/servers"
)

// newFrailScene is a scene whose store can be taken away. A directory is replaced by a
// file; to a server, which all tests share, there is a way of the scene's own, which is
// closed while there is a file "broken".
func newFrailScene(t *testing.T) *scene {
	s := newScene(t)
	if onDirectories() {
		return s
	}
	target := &url.URL{Scheme: "http", Host: server.Address}
	way := httptest.NewServer(s.gate(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if server.Kind != servers.GCS { // which finds its buckets by it; to others it is signed
				r.Out.Host = r.In.Host
			}
		},
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
	}))
	t.Cleanup(way.Close)
	address := strings.TrimPrefix(way.URL, "http://")
	s.store.url, s.way = urlOn(address, s.store.prefix), server.Env(address)
	return s
}

// gate lets requests through while nothing is broken. A status in that file is the
// answer to all of them; a part of a URL keeps those from any answer, and no text all.
func (s *scene) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(s.path("broken"))
		what := strings.TrimSpace(string(text))
		status, notStatus := strconv.Atoi(what)
		switch {
		case err != nil || notStatus != nil && !strings.Contains(r.URL.String(), what):
			next.ServeHTTP(w, r)
		case notStatus != nil:
			panic(http.ErrAbortHandler) // cuts the connection
		default:
			w.WriteHeader(status)
		}
	})
}

// breakStore takes a frail scene's store away; mendStore brings it back.
func (s *scene) breakStore() {
	s.Helper()
	if !onDirectories() {
		s.write("broken", "")
		return
	}
	if err := errors.Join(os.Rename(s.path("store"), s.path("away")), os.WriteFile(s.path("store"), nil, 0o666)); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) mendStore() {
	s.Helper()
	if !onDirectories() {
		if err := os.Remove(s.path("broken")); err != nil {
			s.Fatal(err)
		}
		return
	}
	if err := errors.Join(os.Remove(s.path("store")), os.Rename(s.path("away"), s.path("store"))); err != nil {
		s.Fatal(err)
	}
}

// breakRecord keeps everybody from reading and writing n's record, until mended.
func (s *scene) breakRecord() (mend func()) {
	s.Helper()
	if !onDirectories() {
		s.write("broken", "lock.json")
		return s.mendStore
	}
	// In one move: a record that is gone for a moment is free.
	before := s.record()
	if err := errors.Join(syscall.Mkfifo(s.path("fifo"), 0o600), os.Rename(s.path("fifo"), s.path("store/n/lock.json"))); err != nil {
		s.Fatal(err)
	}
	return func() { s.put("n/lock.json", before) }
}

// What the commands of a frail scene do to its store, in a shell's words.

func breaksStore() string { return either("mv store away; echo >store", "echo >broken") }

func mendsStore() string { return either("rm store; mv away store", "rm broken") }

// barsStore makes the store refuse everybody. A request that is under way must not make
// the directory again.
func barsStore() string {
	return either("mv store away; until (echo >store) 2>/dev/null; do rm -r store; done", "echo 403 >broken")
}

// barsRecord keeps everybody from reading and writing n's record. In one move: one that is
// gone for a moment is written again by a renewal.
func barsRecord() string {
	return either("mkfifo bar; mv -f bar store/n/lock.json", "echo lock.json >broken")
}

func either[T any](onDirectory, onServer T) T {
	if onDirectories() {
		return onDirectory
	}
	return onServer
}
