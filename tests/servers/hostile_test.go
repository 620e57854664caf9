package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store"
)

// No name, key, or text of a lease leads out of the prefix: whatever is asked with
// it is refused before a byte is sent, or changes objects below the prefix alone.

const (
	hostilePrefix = "a/locks"
	inside        = hostilePrefix + "/"
)

// hostileNames are names and, where the core refuses one, a part of the rule that
// its error tells.
var hostileNames = map[string]string{
	"":                  "must not be empty",
	".":                 "segment . or ..",
	"..":                "segment . or ..",
	"../x":              "segment . or ..",
	"../../x":           "segment . or ..",
	"../locks2/n":       "segment . or ..",
	"a/../../b":         "segment . or ..",
	"a/./b":             "segment . or ..",
	"a/..":              "segment . or ..",
	"/x":                "begin or end with a slash",
	"/etc/cron.d/x":     "begin or end with a slash",
	"x/":                "begin or end with a slash",
	"//":                "begin or end with a slash",
	"a//b":              "empty segment",
	`..\x`:              "backslash",
	`a\..\..\b`:         "backslash",
	"a\x00b":            "control characters",
	"../x\x00":          "control characters",
	"a\nb":              "control characters",
	"a\u0085b":          "control characters",
	"\xc0\xae\xc0\xae/": "UTF-8", // overlong for ../
	"\xe0\x80\xae/x":    "UTF-8",
	"a\xff":             "UTF-8",
	"a.":                "end in a dot or a space",
	"a ":                "end in a dot or a space",
	"x.. /y":            "end in a dot or a space",
	"...":               "end in a dot or a space",
	"_mopslock":         "reserved",
	"_mopslock/../x":    "reserved",
	"_mopslock/s/x":     "reserved",
	"n/_mopslock/v":     "reserved",
	"n/lock.json":       "reserved",
	"n/result":          "reserved",

	strings.Repeat("n", 201):   "200 bytes",
	strings.Repeat("n/", 300):  "512 bytes",
	strings.Repeat("n/", 9999): "512 bytes",

	"..%2fx":                         "",
	"%2e%2e/x":                       "",
	"%2e%2e%2fx":                     "",
	"..%5cx":                         "",
	"a%00b":                          "",
	"․․/x":                           "", // U+2024, one dot leader
	"．．/x":                           "", // fullwidth
	"..／x":                           "", // a fullwidth slash
	"a\u202eb":                       "", // from right to left
	"__0x2e____0x2e__/x":             "", // gocloud's escapes
	"__0x2f__x":                      "",
	"x?prefix=..":                    "",
	"x?versionId=1&delete":           "",
	"x#y":                            "",
	"x&y=z+w;v":                      "",
	"x*y":                            "",
	`"quoted"`:                       "",
	"<x>":                            "",
	"~root":                          "",
	"$(x)`y`":                        "",
	"-rf":                            "",
	".hidden/x":                      "",
	"..x/y":                          "",
	".mopslock-tmp-x":                "",
	"lock":                           "",
	"N":                              "",
	"2":                              "", // locks and 2, if somebody forgot the slash between
	"-other/n":                       "",
	"s3://other/x":                   "",
	"file:":                          "",
	strings.Repeat("n/", 255) + "nn": "",
}

// neighbours is what is in the store besides, and must stay as it is.
var neighbours = []string{
	"x", "n/lock.json", "a/x", "a/n/lock.json", "a/b", "b", "a/locks2/n/lock.json", "a/locks-other/n/lock.json", "a/locks2/_mopslock/store.json",
	"_mopslock/store.json", "_mopslock/s/x/beat", "a/_mopslock/store.json", "a/lock.json", "etc/cron.d/x", "a/Locks/n/lock.json",
}

// attempt is one thing that is done with a hostile text.
type attempt struct {
	name string
	// below is what stands before the text: what is at one name cannot be both a
	// lease's and a semaphore's.
	below string
	do    func(ctx context.Context, h *host.Host, s store.Store, text string) error
}

// attempts are the whole stack, down to the verbs.
var attempts = []attempt{
	{"strict", "", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		return held(h.TryAcquire(ctx, text, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict}}))
	}},
	{"session", "", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		return held(h.TryAcquire(ctx, text, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict, Session: true}}))
	}},
	{"lastwriter", "", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		return held(h.TryAcquire(ctx, text, &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolLastWriter}}))
	}},
	{"permit", "sem/", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		permit, err := h.AcquirePermit(ctx, text, host.View{Capacity: 1, Width: 1}, nil)
		if err != nil {
			return err
		}
		return permit.Release(ctx)
	}},
	{"invoke", "inv/", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		result, err := h.Invoke(ctx, text, func(_ context.Context, work *host.Work) error {
			work.Return(host.Bytes([]byte("result")))
			return nil
		}, nil)
		if err != nil {
			return err
		}
		_, err = result.Bytes(ctx, 100)
		return err
	}},
	{"kept failure", "fail/", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		_, err := h.Invoke(ctx, text, func(_ context.Context, work *host.Work) error {
			work.Fail(host.Bytes([]byte("failure")))
			return errors.New("it failed")
		}, &host.InvokeOptions{MemoFailures: true})
		if errors.Is(err, host.ErrNoResult) {
			return nil
		}
		return err
	}},
	{"status", "", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		_, err := h.Inspect(ctx, text)
		return err
	}},
	{"break", "", func(ctx context.Context, h *host.Host, _ store.Store, text string) error {
		_, err := h.Break(ctx, text, &host.BreakOptions{Why: "a test"})
		if errors.Is(err, host.ErrRefused) { // nothing to break
			return nil
		}
		return err
	}},
	{"fence", "fence/", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		object, err := fence.Open(s, text)
		if err != nil {
			return err
		}
		_, err = object.Write(ctx, fence.Tenure{Token: 1, Holder: "h"}, []byte("guarded"))
		return err
	}},
	{"put", "keys/", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		return s.Put(ctx, text, []byte("put"), "")
	}},
	{"create", "keys/", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		if err := s.Create(ctx, text, []byte("created"), ""); !errors.Is(err, store.ErrExists) {
			return err
		}
		return nil
	}},
	{"get", "", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		if object, err := s.Get(ctx, text); !errors.Is(err, store.ErrAbsent) {
			return errors.Join(err, mustNotBe(object.Body))
		}
		return nil
	}},
	{"exists", "", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		_, err := s.Exists(ctx, text)
		return err
	}},
	{"delete", "keys/", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		return s.Delete(ctx, text)
	}},
	{"delete what is not there", "", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		return s.Delete(ctx, text)
	}},
	{"delete a record", "", func(ctx context.Context, _ *host.Host, s store.Store, text string) error {
		return s.Delete(ctx, text+"/"+core.LockFile)
	}},
}

// attemptLimit ends one that waits, which none should.
const attemptLimit = time.Minute

func held(l *host.Lease, err error) error {
	if err != nil {
		return err
	}
	return l.Release(context.Background())
}

// planted is the body of every neighbour.
const planted = "somebody else's"

func mustNotBe(body []byte) error {
	if string(body) == planted {
		return errEscaped
	}
	return nil
}

var errEscaped = errors.New("read what is not ours")

// isRefusal reports whether an error is of those that come before any request.
func isRefusal(err error) bool {
	var config *core.Error
	return errors.Is(err, store.ErrKey) || errors.As(err, &config) && config.Code == core.ErrorConfig
}

// host is what stands on the store, and closes it in the end.
func (p *place) host(t *testing.T) *host.Host {
	h, err := host.New(p.under, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	return h
}

func (p *place) plant(t *testing.T) {
	for _, key := range neighbours {
		if err := p.root.Put(t.Context(), key, []byte(planted), ""); err != nil {
			t.Fatal(err)
		}
	}
}

// outside is what of all objects is not below the prefix.
func outside(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, inside) })
	return all
}

// untouched fails unless what is outside is as it was.
func untouched(t failer, what string, before, after map[string]string) {
	t.Helper()
	for key, print := range before {
		if after[key] != print {
			t.Errorf("%s: %q was changed", what, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			t.Errorf("%s: %q was made", what, key)
		}
	}
}

// try does one attempt and says whether it was refused.
func (p *place) try(t failer, h *host.Host, a attempt, name, rule string) (refused bool) {
	t.Helper()
	var before int64
	if p.sent != nil {
		before = p.sent.Load()
	}
	ctx, cancel := context.WithTimeout(context.Background(), attemptLimit)
	defer cancel()
	err := a.do(ctx, h, p.under, a.below+name)
	refused = isRefusal(err)
	switch {
	case err != nil && !refused:
		t.Errorf("%s of %.50q: %v", a.name, name, err)
	case refused && p.sent != nil && p.sent.Load() != before:
		t.Errorf("%s of %.50q: %d bytes were sent, and then: %v", a.name, name, p.sent.Load()-before, err)
	case rule != "" && isOfHost(a.name) && !refused:
		t.Errorf("%s of %.50q is not refused", a.name, name)
	case rule != "" && a.name == "strict" && !strings.Contains(err.Error(), rule):
		t.Errorf("%s of %.50q: the error does not say %q: %v", a.name, name, rule, err)
	case refused && len(err.Error()) < len("mopslock: a rule"):
		t.Errorf("%s of %.50q: no rule: %v", a.name, name, err)
	}
	return refused
}

// isOfHost: what takes names, whose rules are narrower than those of keys.
func isOfHost(attempt string) bool {
	return slices.Contains([]string{"strict", "session", "lastwriter", "status", "break"}, attempt)
}

// TestHostileNames: on every kind of store, through the whole stack.
func TestHostileNames(t *testing.T) {
	for kind, open := range hostilePlaces() {
		t.Run(kind, func(t *testing.T) {
			p := open(t)
			p.plant(t)
			h := p.host(t)
			first := outside(p.objects(t))
			if len(first) < len(neighbours) {
				t.Fatalf("%d objects, of %d neighbours", len(first), len(neighbours))
			}
			used := 0
			for name, rule := range hostileNames {
				for _, a := range attempts {
					if !p.try(t, h, a, name, rule) {
						used++
					}
				}
				untouched(t, fmt.Sprintf("%.50q", name), first, outside(p.objects(t)))
			}
			if used == 0 || len(p.objects(t)) <= len(first) {
				t.Error("nothing was done at all")
			}
			t.Logf("%d names, %d attempts, %d not refused", len(hostileNames), len(hostileNames)*len(attempts), used)
		})
	}
}

// TestHostileList: no prefix of a list shows what is outside.
func TestHostileList(t *testing.T) {
	for kind, open := range hostilePlaces() {
		t.Run(kind, func(t *testing.T) {
			p := open(t)
			p.plant(t)
			h := p.host(t)
			if err := p.under.Put(t.Context(), "ours/lock.json", []byte(planted), ""); err != nil {
				t.Fatal(err)
			}
			for name := range hostileNames {
				page, _, err := p.under.List(t.Context(), name, "", 0)
				if err != nil && !isRefusal(err) {
					t.Errorf("list %.50q: %v", name, err)
				}
				for _, info := range page {
					if info.Key != "ours/lock.json" {
						t.Errorf("list %.50q: %q", name, info.Key)
					}
				}
				for status, err := range h.List(t.Context(), name) {
					if err != nil && !isRefusal(err) || err == nil && status.Name != "ours" {
						t.Errorf("ls %.50q: %+v, %v", name, status.Name, err)
					}
				}
			}
		})
	}
}

// TestAnyName: of whatever a name may be put together, in memory and in a directory.
func TestAnyName(t *testing.T) {
	tokens := []string{
		"..", ".", "/", "//", `\`, "\x00", "\n", "%2e", "%2f", "%", "__0x2e__", "__0x2f__", "__0x", "_mopslock", "lock.json", "result", "lock",
		"s", "f", " ", "a", "é", "․", "．", "／", "∕", "\xc0\xae", "\xff", "~", "?", "#", ":", "C:", "CON", ".mopslock-tmp-", strings.Repeat("y", 199),
	}
	for _, kind := range []string{"mem", "file"} {
		t.Run(kind, func(t *testing.T) {
			p := hostilePlaces()[kind](t)
			p.plant(t)
			h := p.host(t)
			first := outside(p.objects(t))
			rapid.Check(t, func(t *rapid.T) {
				name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 1, 6).Draw(t, "name"), "")
				a := rapid.SampledFrom(attempts).Draw(t, "attempt")
				ctx, cancel := context.WithTimeout(context.Background(), attemptLimit)
				defer cancel()
				err := a.do(ctx, h, p.under, a.below+name)
				if err == nil && isOfHost(a.name) && core.CheckName(name) != nil {
					t.Fatalf("%s of %q is not refused", a.name, name)
				}
				if errors.Is(err, errEscaped) {
					t.Fatal(err)
				}
				untouched(t, a.name, first, outside(p.objects(t)))
			})
		})
	}
}
