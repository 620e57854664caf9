package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/clock"
	"github.com/mopslock/mopslock/host/store"
)

// remembering opens a Host as a process of its own would, on a store with a URL.
func (w *world) remembering(dir, boot string) *actor {
	p := w.hostAt("s3://user:hunter2@bucket/locks", func(s *fakeStore) store.Store { return s }, func(o *Options) { o.Memory, o.Boot = dir, boot })
	p.terms.samples = false
	p.terms.boot = "" // only what is remembered is by this clock, as where many machines write
	return p
}

// What one process saw of a lease is known to the next of the same boot: one that
// only tries takes a dead lease when it looks the second time.
func TestObservationsAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		boot  string
		ahead time.Duration // of the second one's boot clock
		old   bool          // the file is of a version that kept it otherwise
		taken bool
	}{
		"ours": {boot: "ours", taken: true}, "another": {boot: "another"},
		"a clone": {boot: "ours", ahead: minute}, "old file": {boot: "ours", old: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(w *world) {
				holder := w.hostWith(func(o *Options) { o.Boot = "elsewhere" })
				holder.strictly("n")
				holder.store.always(fault{hang: true})
				first := w.remembering(dir, "ours")
				w.is(errOf(first.tryStrictly("n")), &Error{Kind: NotAcquired, Reason: core.ReasonHeld})
				w.ok(first.Close(background))
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				w.ok(err)
				w.same("files", len(files), 1)
				text, err := os.ReadFile(files[0])
				w.ok(err)
				w.same("secrets", strings.Contains(string(text), "hunter2"), false)
				if test.old {
					before, _, _ := strings.Cut(string(text), `,"seen":`)
					w.ok(os.WriteFile(files[0], []byte(before+`,"epoch":1,"print":"7","since_ns":5}`), 0o600))
				}
				w.sleep(2 * minute)
				second := w.remembering(dir, test.boot)
				second.clock.start = first.clock.start.Add(-test.ahead) // one boot, one clock
				l, err := second.tryStrictly("n")
				w.same("taken", err == nil, test.taken)
				if test.taken {
					second.release(l)
					w.ok(second.Close(background))
					files, _ = filepath.Glob(filepath.Join(dir, "*"))
					w.same("files of what is ours", len(files), 0)
				}
			})
		})
	}
}

// A memory that cannot be read or written costs nothing but time.
func TestMemoryFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bubble(t, func(w *world) {
		w.host().strictly("n")
		p := w.remembering(filepath.Join(file, "below"), "ours")
		w.is(errOf(p.tryStrictly("n")), ErrNotAcquired)
		w.sleep(time.Second)
		w.has(p.log.String(), "was not kept")
		other := w.remembering(dir, "ours")
		w.ok(os.WriteFile(other.memory.File("n"), []byte("{"), 0o600))
		w.is(errOf(other.tryStrictly("n")), ErrNotAcquired)
	})
}

// Where the store does not promise order, or says nothing, the boot's clock judges no
// records of others; it is good for what we have seen ourselves, wherever it may be.
func TestBootIsForTheOrderly(t *testing.T) {
	if clock.Boot() == "" {
		t.Skip("this system names no boot")
	}
	for name, place := range map[string]struct {
		tells  func() bool
		judges bool
	}{
		"orderly":     {tells: func() bool { return true }, judges: true},
		"not orderly": {tells: func() bool { return false }},
		"dead mount":  {tells: func() bool { time.Sleep(time.Hour); return true }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := orderlyStore{newFakeStore(newBackend()), place.tells}
				remembers, judges := boots(s, patiently(s.Orderly))
				if remembers != clock.Boot() || judges != "" != place.judges {
					t.Errorf("judges by %q, remembers by %q", judges, remembers)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

type orderlyStore struct {
	*fakeStore
	tells func() bool
}

func (s orderlyStore) Orderly() bool { return s.tells() }

// ClockSteps: it is dated by a clock that may be set, as a directory is.
func (s orderlyStore) ClockSteps() (steps bool, why string) { return true, "" }
