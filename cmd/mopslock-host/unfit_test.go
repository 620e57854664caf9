//go:build unix

package main

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// smallS3 is a bucket in memory: as much of S3 as leases need.
type smallS3 struct {
	creates bool // If-None-Match: * is honoured
	refuses bool // it is answered with 501

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	body []byte
	at   time.Time
}

func newSmallS3(t *testing.T, creates bool) string { return (&smallS3{creates: creates}).serve(t) }

func (b *smallS3) serve(t *testing.T) string {
	b.objects = map[string]object{}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return s3URL(server.URL)
}

func (b *smallS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
	found, there := b.objects[key]
	switch {
	case r.Method == http.MethodPut && b.refuses && r.Header.Get("If-None-Match") != "":
		fail(w, http.StatusNotImplemented, "NotImplemented")
	case r.Method == http.MethodPut && there && b.creates && r.Header.Get("If-None-Match") == "*":
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err == nil {
			b.objects[key] = object{body, time.Now()}
		}
		w.Header().Set("ETag", `"1"`)
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Query().Has("list-type"):
		b.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("start-after"))
	case !there:
		fail(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", found.at.UTC().Format(http.TimeFormat))
		_, _ = w.Write(found.body)
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
}

func (b *smallS3) list(w io.Writer, prefix, after string) {
	type contents struct {
		Key          string
		LastModified string
		Size         int
	}
	var page struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Contents    []contents
	}
	for key, o := range b.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			page.Contents = append(page.Contents, contents{key, o.at.UTC().Format("2006-01-02T15:04:05.000Z"), len(o.body)})
		}
	}
	slices.SortFunc(page.Contents, func(a, b contents) int { return strings.Compare(a.Key, b.Key) })
	_ = xml.NewEncoder(w).Encode(&page)
}

// A store that takes every create for a put, or refuses it, cannot serve strict: 78, and CMD does not run. auto says
// so, and is lastwriter.
func TestStoreWithoutCreate(t *testing.T) {
	besideOthers(t)
	for name, store := range map[string]*smallS3{"ignored": {}, "not implemented": {refuses: true}} {
		t.Run(name, func(t *testing.T) { checkStoreWithoutCreate(t, store.serve(t)) })
	}
}

func checkStoreWithoutCreate(t *testing.T, store string) {
	t.Helper()
	s := newScene(t)
	for _, words := range [][]string{
		{"run", "--protocol", "strict", "--status-file", s.path("s.json"), "n", "--", "touch", "ran"},
		{"run", "--protocol", "strict", "--session", "n", "--", "touch", "ran"},
		{"acquire", "--protocol", "strict", "--ttl", "60s", "n"},
	} {
		p := s.withStore(store, words...)
		p.mustExit(statusUnfit)
		if !strings.Contains(p.err.String(), "does not honour create-if-absent") || p.out.String() != "" {
			t.Errorf("%s%s", p.out, p.err)
		}
	}
	s.decided("s.json", "mopslock", statusUnfit, "unusable")
	for what, flag := range map[string][]string{"permit": nil, "limit": {"--store-limit", "1"}} {
		p := s.withStore(store, append(append([]string{"permit", "n", "--capacity", "1", "--width", "1"}, flag...), "--", "touch", "ran")...)
		p.mustExit(statusUnfit)
		if want := what + ` of "n" cannot be served: the store does not honour create-if-absent, which a semaphore needs; use another store`; !strings.Contains(p.err.String(), want) {
			t.Errorf("%swant %s", p.err, want)
		}
	}
	p := s.withStore(store, "run", "n", "--", "sh", "-c", "echo token $MOPSLOCK_TOKEN $MOPSLOCK_LEASE")
	p.mustExit(0)
	if text := p.out.String(); !strings.Contains(text, "token 0 ") || !strings.Contains(text, "lastwriter") {
		t.Error("not lastwriter's: ", text)
	}
	if strings.Count(p.err.String(), "leases are kept by lastwriter, without a fencing token") != 1 {
		t.Error("not said aloud: ", p.err)
	}
	if s.exists("ran") {
		t.Error("it was run")
	}
}

// On one that honours it auto is strict, the next finds the card, and status judges by the store's clock or ours.
func TestStoreWithCreate(t *testing.T) {
	s := newScene(t)
	store := newSmallS3(t, true)
	for _, token := range []string{"1\n", "3\n"} {
		p := s.withStore(store, "run", "n", "--", "sh", "-c", "echo $MOPSLOCK_TOKEN")
		p.mustExit(0)
		if p.out.String() != token || p.err.String() != "" {
			t.Errorf("%s%s, want the token %s", p.out, p.err, token)
		}
	}
	s.withStore(store, "run", "m", "--", "mopslock-host", "status", "m").mustExit(0)
	ls := s.withStore(store, "ls")
	ls.mustExit(0)
	if !strings.Contains(ls.out.String(), "\nn     released  strict") {
		t.Error(ls.out)
	}
}
