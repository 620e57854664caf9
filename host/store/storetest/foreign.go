package storetest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Foreign is a service, in whose place others answer: a portal, a gateway that has broken,
// a web server at its address.
type Foreign struct {
	// URL makes the store URL for a server's host:port. Its prefix is locks.
	URL func(hostPort string) string
	// Own answers a request of a transfer as the service does. The body has been read.
	Own http.HandlerFunc
	// List is a list of the service, of one object below a prefix, for a bucket.
	List func(bucket, prefix string) string
	// Error is the service's own document about an error of its own.
	Error string
	// Mark is set on the answers to List, as headers.
	Mark map[string]string
}

// foreignReply is an answer that is not the service's word on what was asked.
type foreignReply struct {
	name     string
	status   int
	body     string
	kind     string // of content
	location bool   // it leads to a web page
	mark     bool   // it has the service's headers
}

const page = "<html><body><h1>Maintenance</h1></body></html>"

// replies are those that any request may get.
func (f *Foreign) replies() []foreignReply {
	const html = "text/html; charset=utf-8"
	return []foreignReply{
		{name: "200_nothing", status: 200},
		{name: "200_page", status: 200, body: page, kind: html},
		{name: "200_error", status: 200, body: f.Error, kind: "application/xml"},
		{name: "301_page", status: 301, body: page, kind: html, location: true},
		{name: "302_page", status: 302, body: page, kind: html, location: true},
		{name: "307_page", status: 307, body: page, kind: html, location: true},
		{name: "304_nothing", status: 304},
		{name: "400_page", status: 400, body: page, kind: html},
		{name: "403_page", status: 403, body: page, kind: html},
		{name: "404_page", status: 404, body: page, kind: html},
		{name: "404_nothing", status: 404},
		{name: "409_page", status: 409, body: page, kind: html},
		{name: "412_page", status: 412, body: page, kind: html},
		{name: "412_nothing", status: 412},
	}
}

// lists are those that a list may get as well.
func (f *Foreign) lists() []foreignReply {
	whole := f.List("bucket", "locks/n/")
	return []foreignReply{
		{name: "200_other_prefix", status: 200, body: f.List("bucket", "locks/other/"), mark: true},
		{name: "200_other_bucket", status: 200, body: f.List("another", "locks/n/"), mark: true},
		{name: "200_truncated", status: 200, body: whole[:len(whole)*2/3], mark: true},
		{name: "200_marked_nothing", status: 200, mark: true},
		{name: "200_marked_page", status: 200, body: page, mark: true},
		{name: "200_marked_error", status: 200, body: f.Error, mark: true},
	}
}

// RunForeign checks that each verb calls an answer unknown which is not the service's own
// word, and that each request of a transfer does.
func RunForeign(t *testing.T, f Foreign) {
	server := &stranger{foreign: f}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	s, err := store.Open(t.Context(), f.URL(web.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })

	t.Run("own_list", func(t *testing.T) { // or all of the following would prove nothing
		server.say(&foreignReply{status: 200, body: f.List("bucket", "locks/n/"), mark: true}, 0)
		page, more, err := s.List(t.Context(), "n/", "", 0)
		if err != nil || more || len(page) != 1 || page[0].Key != "n/object" {
			t.Fatalf("%v %v %v", page, more, err)
		}
	})
	for _, op := range []string{"get", "exists", "list", "put", "create", "delete", "open"} {
		replies := f.replies()
		if op == "list" {
			replies = append(replies, f.lists()...)
		}
		for _, reply := range replies {
			t.Run(op+"_"+reply.name, func(t *testing.T) {
				server.say(&reply, 0)
				if op == "open" {
					wantUnknown(t, openOnly(t, s))
					return
				}
				wantUnknown(t, verb(t, s, op))
			})
		}
	}
	// One request after the other of a body that goes in parts, until there are no more.
	const size = 8<<20 + 1
	streams := streamer(t, s)
	for _, reply := range f.replies()[:3] {
		for n := 0; ; n++ {
			if n > 10 {
				t.Fatal("a transfer does not end")
			}
			over := false
			t.Run(fmt.Sprintf("transfer_%s_%d", reply.name, n), func(t *testing.T) {
				key := fmt.Sprintf("transfer_%s_%d_", reply.name, n)
				server.say(&reply, n)
				server.transfers(key)
				err := streams.PutFrom(t.Context(), key, &Body{Size: size}, size, kind)
				if over = !server.said(); over {
					if err != nil {
						t.Fatalf("with the service's own answers: %v", err)
					}
					return
				}
				wantUnknown(t, err)
			})
			if over || t.Failed() {
				break
			}
		}
	}
	t.Run("look_before_a_transfer", func(t *testing.T) { // its "exists" is believed
		server.say(&foreignReply{status: 200, body: page, kind: "text/html"}, 0)
		err := streams.CreateFrom(t.Context(), "k", &Body{Size: size}, size, kind)
		if errors.Is(err, store.ErrExists) {
			t.Error(err)
		}
	})
}

func openOnly(t *testing.T, s store.Store) error {
	body, _, err := streamer(t, s).Open(t.Context(), "n/lock.json")
	if err == nil {
		_ = body.Close()
	}
	return err
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	var e *store.Error
	switch {
	case err == nil:
		t.Error("it counts as yes")
	case errors.Is(err, store.ErrAbsent), errors.Is(err, store.ErrExists):
		t.Errorf("it counts as no: %v", err)
	case !errors.As(err, &e) || e.Class == core.ClassNone:
		t.Errorf("error %T %v", err, err)
	}
	t.Log(err)
}

// stranger is a server that answers as the service does, and one request otherwise, with
// all that repeat it.
type stranger struct {
	foreign Foreign

	mu    sync.Mutex
	reply *foreignReply
	after int
	hit   bool
	key   string // of the transfer under way
}

// say has the request behind so many answered by the reply.
func (s *stranger) say(reply *foreignReply, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply, s.after, s.hit = reply, after, false
}

// transfers has it count no request of an earlier transfer: one that failed may have sent several
// parts at once, which arrive after it has ended.
func (s *stranger) transfers(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
}

func (s *stranger) said() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hit
}

// ServeHTTP implements http.Handler.
func (s *stranger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if strings.HasPrefix(r.URL.Path, "/.portal") {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("ETag", `"of a page"`)
		_, _ = io.WriteString(w, page)
		return
	}
	s.mu.Lock()
	if url := r.URL.String(); strings.Contains(url, "transfer_") && !strings.Contains(url, s.key) {
		s.mu.Unlock()
		s.foreign.Own(w, r)
		return
	}
	reply, mine := s.reply, s.after == 0
	s.after--
	// A verb may ask twice; a transfer that failed may clean up.
	streams := r.Method == http.MethodPut || r.Method == http.MethodPost
	mine = mine || s.hit && !streams && r.Method != http.MethodDelete
	s.hit = s.hit || mine
	s.mu.Unlock()
	if !mine {
		s.foreign.Own(w, r)
		return
	}
	header := w.Header()
	header["Content-Type"] = nil
	if reply.kind != "" {
		header.Set("Content-Type", reply.kind)
	}
	if reply.location {
		header.Set("Location", "http://"+r.Host+"/.portal/?"+r.URL.RawQuery)
	}
	if reply.mark {
		for name, value := range s.foreign.Mark {
			header.Set(name, value)
		}
	}
	w.WriteHeader(reply.status)
	if r.Method != http.MethodHead && reply.status != http.StatusNotModified {
		_, _ = io.WriteString(w, reply.body)
	}
}
