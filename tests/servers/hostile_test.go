package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// No name, key, or text of a lease leads out of the prefix: a call with one is refused
// before a byte is sent, or changes objects below the prefix alone.

const hostilePrefix = "a/locks"

// hostileNames are names and, where the core refuses one, a part of the rule that
// its error tells.
var hostileNames = map[string]string{
	"":                  "must not be empty",
	".":                 "segment . or ..",
	"..":                "segment . or ..",
	"../x":              "segment . or ..",
	"../locks2/n":       "segment . or ..",
	"a/../../b":         "segment . or ..",
	"a/..":              "segment . or ..",
	"/x":                "begin or end with a slash",
	"/etc/cron.d/x":     "begin or end with a slash",
	"x/":                "begin or end with a slash",
	"a//b":              "empty segment",
	`..\x`:              "backslash",
	"a\x00b":            "control characters",
	"a\nb":              "control characters",
	"\xc0\xae\xc0\xae/": "UTF-8", // overlong for ../
	"a\xff":             "UTF-8",
	"a.":                "end in a dot or a space",
	"a ":                "end in a dot or a space",
	"...":               "end in a dot or a space",
	"_mopslock":         "reserved",
	"n/_mopslock/v":     "reserved",
	"n/lock.json":       "reserved",
	"n/result":          "reserved",

	strings.Repeat("n", 201):  "200 bytes",
	strings.Repeat("n/", 300): "512 bytes",

	"..%2fx":                         "",
	"%2e%2e/x":                       "",
	"..%5cx":                         "",
	"․․/x":                           "", // U+2024, one dot leader
	"..／x":                           "", // a fullwidth slash
	"a\u202eb":                       "", // from right to left
	"__0x2e____0x2e__/x":             "", // gocloud's escapes
	"x?prefix=..":                    "",
	"x?versionId=1&delete":           "",
	"x#y":                            "",
	"$(x)`y`":                        "",
	"-rf":                            "",
	".hidden/x":                      "",
	"..x/y":                          "",
	".mopslock-tmp-x":                "",
	"2":                              "", // locks and 2, if the slash between them were forgotten
	"-other/n":                       "",
	"s3://other/x":                   "",
	"file:":                          "",
	strings.Repeat("n/", 255) + "nn": "",
}

// neighbours are the other objects in the store, which must stay as they are.
var neighbours = []string{
	"x", "n/lock.json", "a/x", "a/n/lock.json", "a/b", "b", "a/locks2/n/lock.json", "a/locks-other/n/lock.json", "a/locks2/_mopslock/store.json",
	"_mopslock/store.json", "_mopslock/s/x/beat", "a/_mopslock/store.json", "a/lock.json", "etc/cron.d/x", "a/Locks/n/lock.json",
}

// attempts are the calls that are tried with a hostile text. below stands before the text,
// since one name cannot be both a lease's and a semaphore's.
var attempts = []struct {
	name, below string
	// ofNames: it takes a name, whose rules are narrower than those of keys.
	ofNames bool
	do      func(ctx context.Context, h *host.Host, s store.Store, text string) error
}{
	{"strict", "", true, func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		return givenBack(h.TryAcquire(ctx, text, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict}}))
	}},
	{"lastwriter", "", true, func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		return givenBack(h.TryAcquire(ctx, text, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolLastWriter}}))
	}},
	{"permit", "sem/", false, func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		permit, err := h.AcquirePermit(ctx, text, host.View{Capacity: 1, Width: 1}, nil)
		if err != nil {
			return err
		}
		return permit.Release(ctx)
	}},
	{"break", "", true, func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		_, err := h.Break(ctx, text, &host.BreakOptions{Why: "a test"})
		if errors.Is(err, host.ErrRefused) { // nothing to break
			return nil
		}
		return err
	}},
	{"verbs", "keys/", false, func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		for _, v := range verbs {
			if err := v.do(ctx, s, text); err != nil && !errors.Is(err, store.ErrAbsent) && !errors.Is(err, store.ErrExists) {
				return err
			}
		}
		return nil
	}},
	{"get", "", false, func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		return mustNotBe(ctx, s, text)
	}},
	{"list", "", false, func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		page, _, err := s.List(ctx, text, "", 0)
		for _, info := range page[:min(len(page), 5)] {
			err = errors.Join(err, mustNotBe(ctx, s, info.Key))
		}
		return err
	}},
	{"delete", "", false, func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		return s.Delete(ctx, text)
	}},
}

func givenBack(l *host.Lease, err error) error {
	if err != nil {
		return err
	}
	return l.Release(context.Background())
}

// planted is the body of every neighbour.
const planted = "somebody else's"

var errEscaped = errors.New("read what is not ours")

func mustNotBe(ctx context.Context, s store.Store, key string) error {
	object, err := s.Get(ctx, key)
	if string(object.Body) == planted {
		return errEscaped
	}
	if errors.Is(err, store.ErrAbsent) {
		return nil
	}
	return err
}

// isRefusal reports whether an error is of those that come before any request.
func isRefusal(err error) bool {
	var config *core.Error
	return errors.Is(err, store.ErrKey) || errors.As(err, &config) && config.Code == core.ErrorConfig
}

// place is a store below a prefix, and one above it that sees all around it.
type place struct {
	under, root store.Store
	host        *host.Host
	first       map[string]string // what was outside when it was made
	// asked counts the requests that a proxy has seen; nil where there is none.
	asked func() int
}

// newPlace plants the neighbours.
func newPlace(t *testing.T, under, root store.Store, asked func() int) *place {
	for _, key := range neighbours {
		if err := root.Put(t.Context(), key, []byte(planted), ""); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.New(under, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	p := &place{under: under, root: root, host: h, asked: asked}
	if p.first = p.outside(t); len(p.first) != len(neighbours) {
		t.Fatalf("%d objects, of %d neighbours", len(p.first), len(neighbours))
	}
	return p
}

// filePlace has the store some directories deep, and checks that all above it stays empty.
func filePlace(t *testing.T) *place {
	dir := t.TempDir()
	t.Cleanup(func() {
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("beside the store: %v, %v", all, err)
		}
	})
	root := "file://" + filepath.ToSlash(dir) + "/bucket"
	return newPlace(t, open(t, root+"/"+hostilePrefix), open(t, root), nil)
}

// serverPlace has a proxy that sees each key that is asked for.
func serverPlace(t *testing.T, s *Server) *place {
	prefix := fresh("hostile")
	t.Setenv("STORAGE_EMULATOR_HOST", s.Address) // the environment has GCS' address
	root := open(t, s.Under(s.Address, prefix))
	p := behind(t, s)
	var mu sync.Mutex
	p.Choose(func(r *proxy.Request) proxy.Fault {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(r.Key, prefix+"/"+hostilePrefix+"/") {
			t.Errorf("%s of %q", r.Op, r.Key)
		}
		return proxy.None
	})
	return newPlace(t, open(t, s.Under(p.Address(), prefix+"/"+hostilePrefix)), root, func() int { return p.Counts().Total() })
}

// outside is all that is not below the prefix, by key, with a text that any write changes.
func (p *place) outside(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for after, more := "", true; more; {
		page, again, err := p.root.List(context.Background(), "", after, 0)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, info := range page {
			if after = info.Key; !strings.HasPrefix(info.Key, hostilePrefix+"/") {
				found[info.Key] = fmt.Sprint(info.Size, info.Stamp)
			}
		}
		more = again
	}
	return found
}

// try does one attempt and says whether it was refused.
func (p *place) try(t *testing.T, i int, name, rule string) (refused bool) {
	t.Helper()
	a, before := attempts[i], 0
	if p.asked != nil {
		before = p.asked()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := a.do(ctx, p.host, p.under, a.below+name)
	refused = isRefusal(err)
	switch {
	case err != nil && !refused || errors.Is(err, errEscaped):
		t.Errorf("%s of %.50q: %v", a.name, name, err)
	case refused && p.asked != nil && p.asked() != before:
		t.Errorf("%s of %.50q: %d requests, and then: %v", a.name, name, p.asked()-before, err)
	case rule != "" && a.ofNames && !refused:
		t.Errorf("%s of %.50q is not refused", a.name, name)
	case rule != "" && i == 0 && !strings.Contains(err.Error(), rule):
		t.Errorf("%s of %.50q: the error does not say %q: %v", a.name, name, rule, err)
	}
	return refused
}

// TestHostileNames: on every kind of store, through the whole stack, no name leads out of
// the prefix; a name that is refused is refused before any request.
func TestHostileNames(t *testing.T) {
	try := func(t *testing.T, p *place) {
		used := 0
		for name, rule := range hostileNames {
			for i := range attempts {
				if !p.try(t, i, name, rule) {
					used++
				}
			}
			if now := p.outside(t); !maps.Equal(now, p.first) {
				t.Errorf("%.50q: outside there is %v, there was %v", name, now, p.first)
			}
		}
		if used < len(hostileNames) {
			t.Errorf("%d attempts were not refused", used)
		}
	}
	t.Run("file", func(t *testing.T) { try(t, filePlace(t)) })
	on(t, func(t *testing.T, s *Server, _ *proxy.Proxy) { try(t, serverPlace(t, s)) })
}
