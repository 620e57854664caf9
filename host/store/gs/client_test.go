package gs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// TestCredentials: each request carries the token, by connections of our own.
func TestCredentials(t *testing.T) {
	var token string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
	}))
	defer server.Close()
	for want, creds := range map[string]*google.Credentials{
		"":               nil,
		"Bearer hunter2": {TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2"})},
	} {
		client, _, err := newClient(creds)
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
		base := client.Transport
		if with, ok := base.(*oauth2.Transport); ok {
			base = with.Base
		}
		if _, ours := base.(*thrifty); !ours {
			t.Errorf("connections of %T", base)
		}
	}
}

// TestThrifty: an answer that is not read costs no connection, unless it is an
// object's: of that no more is read than was wanted.
func TestThrifty(t *testing.T) {
	made := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made[r.RemoteAddr] = true
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
		client, _, err := newClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		clear(made)
		for range 5 {
			request, err := http.NewRequest(c.method, server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
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
