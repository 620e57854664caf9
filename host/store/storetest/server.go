package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Reply is the one answer that a server gives to every request, and the error that a verb
// must make of it.
type Reply struct {
	Name   string
	Op     string // get, exists, put, create, list, delete
	Status int
	Header map[string]string
	Body   string
	Is     error // nil: neither ErrAbsent nor ErrExists
	Class  core.Class
	// RetryAfter is the error's RetryAfter.
	RetryAfter time.Duration
}

// RunReplies checks that a driver makes the right error of each reply, and does not ask
// again. url makes the store URL for a server's host:port.
func RunReplies(t *testing.T, url func(hostPort string) string, replies []Reply) {
	for _, r := range replies {
		t.Run(r.Op+"_"+r.Name, func(t *testing.T) {
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				for name, value := range r.Header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(r.Status)
				fmt.Fprint(w, r.Body)
			}))
			defer server.Close()
			s, err := store.Open(t.Context(), url(server.Listener.Addr().String()))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = verb(t, s, r.Op)
			wantVerdict(t, err, r.Is, r.Class)
			if e := (*store.Error)(nil); errors.As(err, &e) && e.RetryAfter != r.RetryAfter {
				t.Errorf("retry after %v, want %v", e.RetryAfter, r.RetryAfter)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func verb(t *testing.T, s store.Store, op string) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	switch op {
	case "get":
		_, err = s.Get(ctx, "n/lock.json")
	case "exists":
		var there bool
		if there, err = s.Exists(ctx, "n/lock.json"); err == nil && !there {
			err = store.Fail(op, "", core.ClassNone, store.ErrAbsent)
		}
	case "put":
		err = s.Put(ctx, "n/lock.json", []byte("{}"), kind)
	case "create":
		err = s.Create(ctx, "n/lock.json", []byte("{}"), kind)
	case "list":
		_, _, err = s.List(ctx, "n/", "", 0)
	case "delete":
		err = s.Delete(ctx, "n/lock.json")
	default:
		t.Fatalf("no verb %q", op)
	}
	return err
}

func wantVerdict(t *testing.T, err, target error, class core.Class) {
	t.Helper()
	var e *store.Error
	switch {
	case !errors.As(err, &e):
		t.Fatalf("error %T %v", err, err)
	case e.Class != class:
		t.Errorf("class %d, want %d: %v", e.Class, class, err)
	case errors.Is(err, store.ErrAbsent) != (target == store.ErrAbsent), errors.Is(err, store.ErrExists) != (target == store.ErrExists):
		t.Errorf("%v; want %v", err, target)
	}
	t.Log(err)
}
