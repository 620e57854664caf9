//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// racyS3 looks whether there is an object, and writes when another has looked, too,
// or when that takes too long. It writes at once what the doctor creates alone.
type racyS3 struct {
	smallS3

	looking sync.Mutex
	waiting map[string]chan struct{} // by key: whoever has looked and not written
}

func (b *racyS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" {
		key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
		b.mu.Lock()
		_, there := b.objects[key]
		b.mu.Unlock()
		if there {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		if !strings.Contains(key, "/l/") {
			b.waitForAnother(key)
		}
		r.Header.Del("If-None-Match")
	}
	b.smallS3.ServeHTTP(w, r)
}

func (b *racyS3) waitForAnother(key string) {
	b.looking.Lock()
	other, ok := b.waiting[key]
	if ok {
		delete(b.waiting, key)
		b.looking.Unlock()
		close(other)
		return
	}
	mine := make(chan struct{})
	b.waiting[key] = mine
	b.looking.Unlock()
	select {
	case <-mine:
	case <-time.After(5 * time.Second):
	}
	b.looking.Lock()
	defer b.looking.Unlock()
	if b.waiting[key] == mine {
		delete(b.waiting, key)
	}
}

// mustAdviseLastWriter: with the usual TTL and margin, or longer ones, as a store is rightly advised that has stood
// still for a moment.
func mustAdviseLastWriter(t *testing.T, report string) {
	t.Helper()
	found := regexp.MustCompile(`\nuse         mopslock-host run --protocol lastwriter --ttl (\S+) --margin (\S+) --acquire-margin `).FindStringSubmatch(report)
	if found == nil {
		t.Errorf("nothing is advised in %s", report)
		return
	}
	ttl, errTTL := time.ParseDuration(found[1])
	margin, errMargin := time.ParseDuration(found[2])
	if errTTL != nil || errMargin != nil || ttl < core.DefaultTTL || margin < ttl/core.MarginShare || margin > ttl*9/20 {
		t.Errorf("advised are %s and %s", found[1], found[2])
	}
}

// A store in which two can win is refused: by strict itself at once, by the doctor, who
// says what he saw, and from then on by that word; auto falls to lastwriter, aloud.
func TestDoctorRefuses(t *testing.T) {
	ignoring := newSmallS3(t, false)
	racy := &racyS3{waiting: map[string]chan struct{}{}}
	racy.objects = map[string]object{}
	server := httptest.NewServer(racy)
	t.Cleanup(server.Close)
	for name, test := range map[string]struct{ url, seen string }{
		"ignores If-None-Match": {ignoring, "16 of 16 writers were told they won, in 5 of 5 rounds"},
		"looks, then writes":    {s3URL(server.URL), "writers were told they won, in "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			strict := []string{"run", "--protocol", "strict", "n", "--", "touch", "ran"}
			p := s.withStore(test.url, strict...)
			p.mustExit(statusUnfit)
			p.says("does not honour create-if-absent")
			p = s.withStore(test.url, "doctor", "--rounds", "5")
			p.mustExit(statusUnfit)
			p.says("strict cannot be relied on here: ")
			p.says(test.seen)
			out := strings.ReplaceAll(p.out.String(), "\n            ", " ")
			for _, want := range []string{test.seen, "\nverdict     lastwriter only", "\ncard        refused: "} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in %s", want, p.out)
				}
			}
			mustAdviseLastWriter(t, out)
			p = s.withStore(test.url, strict...)
			p.mustExit(statusUnfit)
			p.says("(seen: ")
			p.says(test.seen)
			p.says("have the doctor examine it")
			p = s.withStore(test.url, "run", "n", "--", "sh", "-c", "echo token $MOPSLOCK_TOKEN")
			p.mustExit(0)
			if p.out.String() != "token 0\n" {
				t.Error(p.out)
			}
			p.says("kept by lastwriter, without a fencing token seen=")
			p.says(test.seen)
			if s.exists("ran") {
				t.Error("it was run")
			}
		})
	}
}

// What a store that cannot be examined says is shown, with what to do: 69. One on which
// leases could be kept but for a right is named by what is missing.
func TestDoctorCannot(t *testing.T) {
	for code, test := range map[string]struct {
		status int
		says   string
	}{
		"NoSuchBucket": {http.StatusNotFound, "make the bucket, container or directory"},
		"AccessDenied": {http.StatusForbidden, "check the credentials"},
		"SlowDown":     {http.StatusServiceUnavailable, "ask less often"},
	} {
		t.Run(code, func(t *testing.T) {
			s := newScene(t)
			p := s.withStore(newFakeS3(t, test.status, code).url, "doctor")
			p.mustExit(statusUnavailable)
			p.says(test.says)
		})
	}
	t.Run("list denied", func(t *testing.T) {
		within := &smallS3{creates: true, objects: map[string]object{}}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("list-type") {
				fail(w, http.StatusForbidden, "AccessDenied")
				return
			}
			within.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		s := newScene(t)
		p := s.withStore(s3URL(server.URL), "doctor", "--json", "--rounds", "2")
		p.mustExit(statusUnavailable)
		p.says("list is denied (unauthorized): strict cannot be had")
		var report struct {
			Protocol string
			Verbs    []struct {
				Verb   string
				Denied bool
			}
		}
		if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil || report.Protocol != "lastwriter" || !report.Verbs[4].Denied {
			t.Errorf("%v, %+v", err, report)
		}
	})
}

// A signal ends a bench, which cleans up and prints what there is.
func TestBenchIsInterrupted(t *testing.T) {
	s := newScene(t)
	p := s.withStore("file://"+s.path("store"), "bench", "--for", "1m")
	s.eventually("a line of progress", func() bool { return strings.Contains(p.err.String(), "s: strict: ") })
	p.signal(syscall.SIGINT)
	p.mustExit(128 + int(syscall.SIGINT))
	if out := p.out.String(); !strings.Contains(out, "\nstrict ") || strings.Contains(out, "\nlastwriter ") {
		t.Error(out)
	}
	if s.exists("store/mopslock-bench") {
		t.Error("it has left something")
	}
}

// A bench whose store falls silent is over 5 s after a signal but for its cleaning up,
// which a second signal ends. The rate is that of the time in which there were leases.
func TestBenchOfSilentStore(t *testing.T) {
	within := &smallS3{creates: true, objects: map[string]object{}}
	var silent atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
			<-r.Context().Done()
			return
		}
		within.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s := newScene(t)
	begun := time.Now()
	p := s.withStore(s3URL(server.URL), "bench", "--for", "1m", "--json")
	s.eventually("a line of progress", func() bool { return strings.Contains(p.err.String(), "s: strict: ") })
	silent.Store(true)
	answered := time.Since(begun)
	p.signal(syscall.SIGINT)
	s.eventually("its end", func() bool { return strings.Contains(p.err.String(), "cleaning up") })
	p.signal(syscall.SIGTERM)
	p.mustExit(128 + int(syscall.SIGINT))
	p.says("not everything below mopslock-bench/")
	var report benchReport
	if err := json.Unmarshal([]byte(p.out.String()), &report); err != nil || len(report.Protocols) != 1 || report.Left != -1 {
		t.Fatalf("%v, %s", err, p.out)
	}
	if r := report.Protocols[0]; r.Leases == 0 || float64(r.Leases) > (r.PerS+0.05)*answered.Seconds() {
		t.Errorf("%d leases within %v, at %v a second", r.Leases, answered, r.PerS)
	}
}

// A bench of a store that cannot have strict says so, and measures lastwriter; asked for
// strict alone it has nothing to measure.
func TestBenchWithoutStrict(t *testing.T) {
	s := newScene(t)
	store := newSmallS3(t, false)
	p := s.withStore(store, "bench", "--for", "16s", "--parallel", "2")
	p.mustExit(0)
	p.says("strict is left out: ")
	if out := p.out.String(); strings.Contains(out, "\nstrict ") || !strings.Contains(out, "\nlastwriter ") || !strings.Contains(out, "at S3's list prices") {
		t.Error(out)
	}
	s.withStore(store, "bench", "--protocol", "strict").mustExit(statusUnfit)
}
