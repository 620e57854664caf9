package gs

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// TestCredentials: each request carries the token, over connections of our own.
func TestCredentials(t *testing.T) {
	var token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		if r.URL.Path != "/unmarked" {
			w.Header().Set("X-Guploader-Uploadid", "1")
		}
	}))
	defer server.Close()
	for want, creds := range map[string]*google.Credentials{
		"":               nil,
		"Bearer hunter2": {TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2"})},
	} {
		client, _, err := newClient(creds, "bucket")
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if token != want {
			t.Errorf("%q, want %q", token, want)
		}
		if again, err := client.Get(server.URL + "/unmarked"); err == nil {
			again.Body.Close()
			t.Error("connections that are not ours: an answer without a mark came through")
		}
	}
}

// TestThrifty: an unread answer costs no connection, unless it is an object's body, of
// which no more is read than was wanted.
func TestThrifty(t *testing.T) {
	made := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made[r.RemoteAddr] = true
		w.Header().Set("X-Guploader-Uploadid", "1")
		if r.URL.Path == "/absent" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "some text that nobody reads")
	}))
	defer server.Close()
	for _, c := range []struct {
		method, path string
		connections  int
	}{{http.MethodGet, "/absent", 1}, {http.MethodDelete, "/", 1}, {http.MethodGet, "/object", 5}} {
		client, _, err := newClient(nil, "bucket")
		if err != nil {
			t.Fatal(err)
		}
		clear(made)
		for range 5 {
			request, _ := http.NewRequest(c.method, server.URL+c.path, nil)
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
		client.CloseIdleConnections()
		if len(made) != c.connections {
			t.Errorf("%s %s: %d connections, want %d", c.method, c.path, len(made), c.connections)
		}
	}
}

// TestBrokenBody: an answer that breaks off, even before the first byte, is an error, and
// there is no second request.
func TestBrokenBody(t *testing.T) {
	for _, sent := range []string{"", "half"} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Content-Length", "8")
			w.Header().Set("X-Goog-Generation", "7")
			_, _ = io.WriteString(w, sent)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		defer server.Close()
		s, err := store.Open(t.Context(), at(t)(server.Listener.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = s.Get(t.Context(), "n")
		var failed *store.Error
		if !errors.As(err, &failed) || failed.Class != core.ClassUnreachable {
			t.Errorf("%q: %v", sent, err)
		}
		body, _, err := s.(store.Streamer).Open(t.Context(), "n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadAll(body); !errors.As(err, &failed) || failed.Class != core.ClassUnreachable {
			t.Errorf("%q: %v", sent, err)
		}
		body.Close()
		if n := requests.Load(); n != 2 {
			t.Errorf("%q: %d requests", sent, n)
		}
	}
}

// TestClock: Google's own stamps are trusted, an emulator's and another universe's are not.
func TestClock(t *testing.T) {
	for _, c := range []struct {
		emulator, url string
		steps         bool
	}{
		{"", "gs://bucket?anonymous=true", false},
		{"", "gs://bucket?anonymous=true&clock=hint", true},
		{"", "gs://bucket?anonymous=true&universe_domain=example.com", true},
		{"127.0.0.1:1", "gs://bucket", true},
		{"127.0.0.1:1", "gs://bucket?clock=steady", false},
	} {
		t.Setenv("STORAGE_EMULATOR_HOST", c.emulator)
		s, err := store.Open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		if steps, why := store.ClockSteps(s); steps != c.steps {
			t.Errorf("%s, %s: %v: %s", c.emulator, c.url, steps, why)
		}
		s.Close()
	}
}
