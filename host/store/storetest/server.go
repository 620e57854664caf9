package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// RunURL runs the suite on the store whose URL the environment variable holds,
// each test under a prefix of its own; it skips if the variable is empty.
func RunURL(t *testing.T, variable string) {
	rawURL := os.Getenv(variable)
	if rawURL == "" {
		t.Skipf("no server: set %s to a store URL", variable)
	}
	at, err := store.ParseURL(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	run := fmt.Sprintf("%sstoretest-%x/", at.Prefix, time.Now().UnixNano())
	var number atomic.Int64
	Run(t, func(t *testing.T) store.Store {
		at := *at
		at.Prefix = fmt.Sprintf("%s%d/", run, number.Add(1))
		s, err := store.Open(t.Context(), at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// Reply is what a server of one answer says to every request, and what a verb
// must make of it.
type Reply struct {
	Name   string
	Op     string // get, exists, put, create, list, delete
	Status int
	Header map[string]string
	Body   string
	Is     error // nil: neither ErrAbsent nor ErrExists
	Class  core.Class
	// RetryAfter is what the error is to tell.
	RetryAfter time.Duration
}

// RunReplies checks that a driver takes each reply for what it is, and does not
// ask again. url makes the store URL for a server's host:port.
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

// RunRefused checks that a port where nobody listens is unreachable, and that
// nothing looks absent for it.
func RunRefused(t *testing.T, url func(hostPort string) string) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.Listener.Addr().String()
	server.Close()
	s, err := store.Open(t.Context(), url(address))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, op := range []string{"get", "exists", "list"} {
		wantVerdict(t, verb(t, s, op), nil, core.ClassUnreachable)
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
