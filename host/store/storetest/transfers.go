package storetest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Transfers is a server that takes every upload and keeps nothing.
type Transfers struct {
	// URL makes the store URL for a server's host:port.
	URL func(hostPort string) string
	// Answer answers a request, whose body of size bytes has been read. It gets no HEAD
	// and GET requests: those are answered with 404.
	Answer func(w http.ResponseWriter, r *http.Request, size int64)
	// Makes reports whether r makes an object visible.
	Makes func(r *http.Request) bool
	// Cleans reports whether r removes what a failed upload has left. Nil means that
	// the service does that itself.
	Cleans func(r *http.Request) bool
}

// RunTransfers checks how a driver sends streamed bodies: it holds a bounded part of them,
// and an upload that failed never sends the request that would make the object visible.
func RunTransfers(t *testing.T, x Transfers) {
	const size = 40<<20 + 99
	for name, said := range map[string]int64{"known": size, "unknown": -1} {
		t.Run("bounded_"+name, func(t *testing.T) {
			server, s := x.serve(t)
			held := int64(0)
			err := s.PutFrom(t.Context(), "k", &Body{Size: size, After: func(read int64) error {
				held = max(held, read-server.taken())
				return nil
			}}, said, kind)
			if err != nil {
				t.Fatal(err)
			}
			if held > store.MaxBuffer {
				t.Errorf("%d bytes were read that the server had not yet taken; %d are allowed", held, store.MaxBuffer)
			}
			if server.taken() < size || server.makes != 1 || server.cleans != 0 {
				t.Errorf("%d bytes, %d requests that make an object, %d that clean up", server.taken(), server.makes, server.cleans)
			}
		})
	}
	boom := errors.New("boom")
	for name, at := range map[string]int64{"small": 1000, "large": 20 << 20} {
		t.Run("body_fails_"+name, func(t *testing.T) {
			server, s := x.serve(t)
			err := s.PutFrom(t.Context(), "k", &Body{Size: size, After: func(read int64) error {
				if read >= at {
					return boom
				}
				return nil
			}}, -1, kind)
			wantError(t, err, boom, core.ClassOther)
			wantError(t, err, store.ErrBody, core.ClassOther)
			server.wantNothing(t, x, at)
		})
		t.Run("cancelled_"+name, func(t *testing.T) {
			server, s := x.serve(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := s.CreateFrom(ctx, "k", &Body{Size: size, After: func(read int64) error {
				if read >= at {
					cancel()
				}
				return nil
			}}, size, kind)
			wantError(t, err, context.Canceled, core.ClassOther)
			server.wantNothing(t, x, at)
		})
	}
}

// sink counts what a server has taken.
type sink struct {
	mu            sync.Mutex
	bytes         int64
	makes, cleans int
}

func (k *sink) taken() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes
}

func (k *sink) wantNothing(t *testing.T, x Transfers, at int64) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.makes != 0 {
		t.Errorf("%d requests that make an object", k.makes)
	}
	if x.Cleans != nil && at > store.MaxBuffer && k.cleans != 1 {
		t.Errorf("%d requests that clean up", k.cleans)
	}
}

func (x Transfers) serve(t *testing.T) (*sink, store.Streamer) {
	t.Helper()
	k := &sink{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead || r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the client broke off, and does not wait for an answer
		}
		k.mu.Lock()
		k.bytes += n
		if x.Makes(r) {
			k.makes++
		}
		if x.Cleans != nil && x.Cleans(r) {
			k.cleans++
		}
		k.mu.Unlock()
		x.Answer(w, r, n)
	}))
	t.Cleanup(server.Close)
	s, err := store.Open(t.Context(), x.URL(server.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return k, streamer(t, s)
}
