package gs

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// at makes the URL of a server that the environment names.
func at(t *testing.T) func(hostPort string) string {
	return func(hostPort string) string {
		t.Setenv("STORAGE_EMULATOR_HOST", hostPort)
		return "gs://bucket/locks"
	}
}

func TestReplies(t *testing.T) {
	json := map[string]string{"Content-Type": "application/json"}
	body := func(code, reason, message string) string {
		return `{"error":{"code":` + code + `,"message":"` + message + `","errors":[{"reason":"` + reason + `","message":"` + message + `"}]}}`
	}
	storetest.RunReplies(t, at(t), []storetest.Reply{
		{Name: "absent", Op: "get", Status: 404, Header: json, Body: body("404", "notFound", "No such object: bucket/n/lock.json"), Is: store.ErrAbsent},
		{Name: "absent", Op: "exists", Status: 404, Header: json, Body: body("404", "notFound", "No such object: bucket/n/lock.json"), Is: store.ErrAbsent},
		{Name: "no_bucket", Op: "exists", Status: 404, Header: json, Body: body("404", "notFound", "The specified bucket does not exist."), Class: core.ClassNoSuchStore},
		{Name: "no_bucket", Op: "put", Status: 404, Header: json, Body: body("404", "notFound", "The specified bucket does not exist."), Class: core.ClassNoSuchStore},
		{Name: "no_bucket", Op: "list", Status: 404, Header: json, Body: body("404", "notFound", "The specified bucket does not exist."), Class: core.ClassNoSuchStore},
		{Name: "denied", Op: "get", Status: 403, Header: json, Body: body("403", "forbidden", "caller does not have access"), Class: core.ClassUnauthorized},
		{Name: "denied", Op: "exists", Status: 403, Header: json, Body: body("403", "forbidden", "caller does not have access"), Class: core.ClassUnauthorized},
		{Name: "exists", Op: "create", Status: 412, Header: json, Body: body("412", "conditionNotMet", "precondition"), Is: store.ErrExists},
		{Name: "patience", Op: "create", Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: body("429", "rateLimitExceeded", "one write a second"), Class: core.ClassThrottled, RetryAfter: 7 * time.Second},
		{Name: "patience", Op: "get", Status: 503, Header: map[string]string{"Retry-After": "7"}, Class: core.ClassThrottled, RetryAfter: 7 * time.Second},
		{Name: "internal", Op: "create", Status: 500, Header: json, Body: body("500", "backendError", "broken"), Class: core.ClassOther},
	})
}

// TestNoCredentials: Open returns an error, and nothing is printed on stdout.
func TestNoCredentials(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nope/hunter2.json")
	_, err := store.Open(t.Context(), "gs://bucket/locks")
	var e *store.Error
	if !errors.As(err, &e) || e.Class != core.ClassUnauthorized {
		t.Fatal(err)
	}
	if s, err := store.Open(t.Context(), "gs://bucket?anonymous=true"); err != nil {
		t.Fatal(err)
	} else {
		s.Close()
	}
}

// own answers an upload as GCS does.
func own(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Get("uploadType") == "resumable":
		w.Header().Set("Location", "http://"+r.Host+"/session")
	case r.URL.Path == "/session" && strings.HasSuffix(r.Header.Get("Content-Range"), "/*"):
		w.Header().Set("X-Http-Status-Code-Override", "308")
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"storage#object","name":"locks/k","bucket":"bucket"}`)
	}
}

func TestTransfers(t *testing.T) {
	storetest.RunTransfers(t, storetest.Transfers{
		URL: at(t),
		Makes: func(r *http.Request) bool {
			return r.URL.Query().Get("uploadType") == "multipart" || r.URL.Path == "/session" && !strings.HasSuffix(r.Header.Get("Content-Range"), "/*")
		},
		Answer: func(w http.ResponseWriter, r *http.Request, _ int64) { own(w, r) },
	})
}

// TestForeign: what is not GCS' own word is unknown.
func TestForeign(t *testing.T) {
	storetest.RunForeign(t, storetest.Foreign{
		URL: at(t),
		Own: own,
		List: func(bucket, prefix string) string {
			return `{"kind":"storage#objects","items":[{"kind":"storage#object","bucket":"` + bucket + `","name":"` + prefix +
				`object","size":"2","updated":"2026-01-02T03:04:05.000Z","generation":"1"}]}`
		},
		Error: `{"error":{"code":500,"message":"m","errors":[{"reason":"backendError","message":"m"}]}}`,
		Mark:  map[string]string{"X-Guploader-Uploadid": "1", "Content-Type": "application/json"},
	})
}

// TestNoMarkOnReads: an emulator that marks no 404 to a read is asked by the JSON API.
func TestNoMarkOnReads(t *testing.T) {
	for body, want := range map[string]error{
		`{"error":{"code":404,"message":"No such object","errors":[{"reason":"notFound"}]}}`: store.ErrAbsent, "<html/>": nil,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			if r.URL.Query().Get("alt") == "json" {
				_, _ = io.WriteString(w, body)
			}
		}))
		s, err := store.Open(t.Context(), at(t)(server.Listener.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "k"); err == nil || errors.Is(err, store.ErrAbsent) != (want != nil) {
			t.Errorf("%s: %v", body, err)
		}
		s.Close()
		server.Close()
	}
}

func TestParts(t *testing.T) {
	for size, want := range map[int64]int{
		-1: 8 << 20, 0: 256 << 10, 1: 256 << 10, 256<<10 - 1: 256 << 10, 256 << 10: 512 << 10,
		8<<20 - 1: 8 << 20, 8 << 20: 8 << 20, 5 << 40: 8 << 20,
	} {
		if part, workers := parts(size); part != want || workers != 1 || part*workers > store.MaxBuffer {
			t.Errorf("%d: %d by %d", size, part, workers)
		}
	}
}

// TestSmallPut: a record of a lease does not cost the SDK's buffer of 16 MiB.
func TestSmallPut(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		own(w, r)
	}))
	defer server.Close()
	s, err := store.Open(t.Context(), at(t)(server.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	const puts = 20
	before := allocated()
	for range puts {
		if err := s.Put(t.Context(), "k", make([]byte, 200), ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := (allocated() - before) / puts; n > 1<<20 {
		t.Errorf("%d bytes for a put of 200", n)
	}
}
