package servers

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// troubles are what can be wrong with a store, and the class that every verb gives it,
// whichever store it is.
var troubles = []struct {
	name  string
	class string
	// at returns the URL of a store in trouble; what is to be undone is the test's.
	at  func(t *testing.T, s *Server, p *proxy.Proxy) string
	but map[string]string // by kind and verb, where a service cannot tell
}{
	{"wrong_key", "unauthorized", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		if s.Kind == GCS {
			return "" // the server takes anybody; see package gs for what GCS says
		}
		t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
		t.Setenv("AZURE_STORAGE_KEY", "YW5vdGhlcg==")
		return s.Under(p.Address(), "n")
	}, nil},
	{"no_bucket", "no_such_store", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		u, err := url.Parse(s.Under(p.Address(), "n"))
		if err != nil {
			t.Fatal(err)
		}
		u.Host = "nobodys"
		return u.String()
	}, map[string]string{
		// A HEAD's answer has no word that tells a bucket from an object, and gocloud's
		// delete begins with one. The write that follows does tell.
		"s3 exists": "ok", "s3 delete": "ok",
		// GCS' SDK drops the words of a get, and this server has them of a write only;
		// for GCS' own words see package gs.
		"gs get": "absent", "gs exists": "ok", "gs delete": "ok",
	}},
	{"nobody_listens", "unreachable", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		p.Down()
		t.Cleanup(func() {
			if err := p.Up(); err != nil {
				t.Error(err)
			}
		})
		return s.Under(p.Address(), "n")
	}, nil},
	{"silent", "unreachable", func(t *testing.T, s *Server, p *proxy.Proxy) string {
		if err := s.Silence(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Resume(); err != nil {
				t.Error(err)
			}
		})
		return s.Under(p.Address(), "n")
	}, nil},
	{"too_many", "throttled", always(proxy.Throttled), nil},
	{"busy", "throttled", always(proxy.Busy), nil},
	{"broken", "other", always(proxy.Broken), nil},
	{"a_race", "other", always(proxy.Conflict), nil},
}

func always(fault proxy.Fault) func(*testing.T, *Server, *proxy.Proxy) string {
	return func(t *testing.T, s *Server, p *proxy.Proxy) string {
		p.Choose(func(*proxy.Request) proxy.Fault { return fault })
		t.Cleanup(func() { p.Choose(nil) })
		return s.Under(p.Address(), "n")
	}
}

// TestClassesAreAlike: the same trouble has the same class on every cloud, in every
// verb.
func TestClassesAreAlike(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			server, p := behind(t, kind)
			for _, trouble := range troubles {
				t.Run(trouble.name, func(t *testing.T) {
					at := trouble.at(t, server, p)
					if at == "" {
						t.Skip("this server cannot be made to say so")
					}
					s, err := store.Open(t.Context(), at)
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					for _, v := range verbs {
						limit := walkLimit
						if trouble.name == "silent" { // all that ends it
							limit = 100 * time.Millisecond
						}
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						err := v.do(ctx, s, "n/k")
						cancel()
						want := trouble.class
						if other, ok := trouble.but[kind+" "+string(v.op)]; ok {
							want = other
						}
						if got := answer(err); got != want {
							t.Errorf("%s: %s, want %s: %v", v.op, got, want, err)
						} else if text := fmt.Sprint(err); strings.Contains(text, "another") || strings.Contains(text, "\n") {
							t.Errorf("%s: text %q", v.op, text)
						}
					}
				})
			}
		})
	}
}

// TestClassesOfADirectory: and so has a directory's, where there is such trouble. One
// that is missing is none: the first write makes it. What a kernel can say besides is in
// package local's tests.
func TestClassesOfADirectory(t *testing.T) {
	for _, trouble := range []struct {
		name, class string
		at          func(t *testing.T) string
	}{
		{"no_directory", "no_such_store", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}},
		{"no_permission", "unauthorized", func(t *testing.T) string {
			if os.Geteuid() == 0 {
				t.Skip("root may do everything")
			}
			dir := t.TempDir()
			if err := os.Chmod(dir, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
			return dir
		}},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			s, err := store.Open(t.Context(), "file://"+trouble.at(t))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, v := range verbs {
				want := trouble.class
				if want == "no_such_store" && (v.op == proxy.Exists || v.op == proxy.Delete) {
					want = "ok" // as of S3: there is no such object
				}
				if err := v.do(t.Context(), s, "n/k"); answer(err) != want {
					t.Errorf("%s: %v, want %s", v.op, err, want)
				}
			}
		})
	}
}
