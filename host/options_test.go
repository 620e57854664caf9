package host

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Every bad field is listed, before any request.
func TestBadOptions(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		opts := &AcquireOptions{Wait: -time.Second, Terms: Terms{
			Protocol: core.ProtocolLastWriter, TTL: core.TTL(31 * 24 * time.Hour), Margin: 20 * 24 * time.Hour, AcquireMargin: -1,
			FleetExpire: core.TTL(time.Millisecond), Renewal: 9, Expiry: 9,
		}}
		_, err := p.Acquire(background, "a\x1bb", opts)
		w.says(err, &core.Error{Code: core.ErrorConfig}, "wait -1s", "ttl 744h", "margin 480h", "acquire margin -1ns",
			"fleet expire 1ms", "renewal:", "expiry:", "control characters")
		noSecrets(t, err.Error())
		_, err = p.tried("n", Terms{Protocol: core.ProtocolLastWriter, Session: true})
		w.has(err.Error(), "only strict has sessions")
		_, err = p.tried("n", Terms{Protocol: core.ProtocolStrict, TTL: core.TTLEndless, Session: true})
		w.has(err.Error(), "ttl: a lease on a session has the session's")
		for _, ttl := range []time.Duration{-1, 1, 49 * time.Millisecond} {
			_, err := p.tried("n", Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(ttl)})
			w.is(err, &core.Error{Code: core.ErrorConfig})
		}
		w.sleep(time.Second)
		w.same("requests", p.store.verbs(), "")
		p.idle()
	})
}

func TestHostileNames(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for _, name := range []string{
			"", "/a", "a/", "a//b", ".", "a/../b", "a\x00", "a\nb", "\x7f", "\u0085", `a\b`, "\xff", "a.", "a ", "lock.json",
			"a/_mopslock/b", "result", strings.Repeat("a", 201), strings.Repeat("a/", 256) + "a",
		} {
			_, acquire := p.try(name)
			_, inspect := p.Inspect(background, name)
			for _, err := range []error{acquire, inspect} {
				if !errors.Is(err, &core.Error{Code: core.ErrorConfig}) {
					w.Errorf("%q: %v", name, err)
				} else if strings.ContainsAny(err.Error(), "\x00\n\x7f\u0085") || !utf8.ValidString(err.Error()) {
					w.Errorf("%q is repeated in %q", name, err)
				}
			}
		}
		w.same("requests", p.store.verbs(), "")
		for _, name := range []string{"a", "A b/c d", "é/日本", "a:b*?<>|\"'", "-", "--help", "%2e%2e", strings.Repeat("a", 200)} {
			l, err := p.try(name)
			w.ok(err)
			w.same("name", l.Name(), name)
			p.release(l)
		}
	})
}

// The longest name fits below a prefix with everything that is ever kept of it, or
// is refused at once: not when it is held and the first beat is due.
func TestLongestName(t *testing.T) {
	segment := strings.Repeat("n", core.MaxSegment)
	name := (segment + "/" + segment + "/" + segment)[:core.MaxName]
	room := store.MaxKey - len(longestKey(name))
	for more, want := range []error{nil, store.ErrKey} {
		bubble(t, func(w *world) {
			p, s := w.narrow(strings.Repeat("p", room+more-1) + "/")
			l, err := p.tryStrictly(name)
			if !errors.Is(err, want) {
				w.Fatalf("%d more: %v", more, err)
			}
			if err != nil {
				page, _, err := s.List(background, "", "", 0)
				w.ok(err)
				w.same("objects", len(page), 0)
				return
			}
			w.sleep(3 * minute)
			w.ok(l.Err())
			w.same("state", l.Left() > 0, true)
		})
	}
}

// On stores whose stamps have whole seconds the TTL is at least 5 s.
func TestTTLFloor(t *testing.T) {
	for unit, floor := range map[time.Duration]time.Duration{
		time.Nanosecond: 50 * time.Millisecond, 16 * time.Millisecond: 50 * time.Millisecond, time.Second: 5 * time.Second,
	} {
		bubble(t, func(w *world) {
			p := w.host()
			p.store.unit = unit
			w.is(errOf(p.tried("n", Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(floor - 1)})), &core.Error{Code: core.ErrorConfig})
			p.store.always(fault{})
			l, err := p.tried("n", Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(floor)})
			w.ok(err)
			w.sleep(time.Duration(60) * time.Second)
			w.ok(l.Err())
		})
	}
}

func TestDefaults(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l, err := p.Acquire(background, "n", lastWriter)
		w.ok(err)
		w.same("TTL", l.TTL(), core.TTL(88*time.Second))
		w.same("left", l.Left().Round(time.Second), 79*time.Second)
		p.release(l)
		l, err = p.TryAcquire(background, "n", lastWriter)
		w.ok(err)
		p.release(l)
	})
}

func TestNewRefuses(t *testing.T) {
	s := newFakeStore(&backend{})
	if _, err := New(s, &Options{InFlight: -1}); err == nil || !strings.Contains(err.Error(), "InFlight -1") {
		t.Fatal(err)
	}
	h, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(background)
	h.terms.rand = failingRand{}
	if _, err := h.Acquire(background, "n", lastWriter); !errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
}

type failingRand struct{}

func (failingRand) Read([]byte) (int, error) { return 0, os.ErrPermission }

func TestOpen(t *testing.T) {
	ctx := background
	for _, bad := range []string{"", "nonsense", "ftp://user:hunter2@host/", "s3://b/p?prefix=q&secret=hunter2", "file://host/dir", "b2://bucket"} {
		h, err := Open(ctx, bad, nil)
		if !errors.Is(err, store.ErrURL) {
			t.Errorf("%q: %v, %v", bad, h, err)
			continue
		}
		noSecrets(t, err.Error())
	}
	if _, err := Open(ctx, "mem://", &Options{InFlight: -1}); err == nil {
		t.Error("InFlight -1 taken")
	}
	h, err := Open(ctx, "mem://?prefix=locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.Acquire(ctx, "n", lastWriter)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Handle().Store; got != h.URL() || got != "mem://?prefix=locks%2F" {
		t.Errorf("store %q", got)
	}
	if err := h.Close(ctx); err != nil || !errors.Is(l.Err(), ErrReleased) {
		t.Errorf("close: %v, %v", err, l.Err())
	}
}

func TestThisProcess(t *testing.T) {
	h, err := Open(t.Context(), "mem://", nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := h.terms; o.host == "" || strings.HasSuffix(o.host, ".local") || o.pid == "" {
		t.Fatalf("%+v", o)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for in, want := range map[string]string{"mac.local": "mac", "a.local.net": "a.local.net", "": "unknown", "box": "box"} {
		if got := hostName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
