package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// remembering opens a Host as a process of its own would, on a store with a URL.
func (w *world) remembering(dir, boot string) *party {
	p := w.hostWith(func(o *Options) { o.Memory, o.Boot = dir, boot })
	p.url, p.calibrates = "s3://user:hunter2@bucket/locks", false
	return p
}

// What one process saw of a lease is known to the next of the same boot: one that
// only tries takes a dead lease when it looks the second time.
func TestObservationsAreKept(t *testing.T) {
	for boot, taken := range map[string]bool{"ours": true, "another": false} {
		t.Run(boot, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(w *world) {
				holder := w.hostWith(func(o *Options) { o.Boot = "elsewhere" })
				holder.strictly("n")
				holder.store.always(fault{hang: true})
				first := w.remembering(dir, "ours")
				_, err := first.tryStrictly("n")
				w.is(err, &Error{Kind: Refused, Reason: core.ReasonHeld})
				w.ok(first.Close(context.Background()))
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				w.ok(err)
				w.same("files", len(files), 1)
				text, err := os.ReadFile(files[0])
				w.ok(err)
				w.same("secrets", strings.Contains(string(text), "hunter2"), false)
				w.sleep(2 * minute)
				second := w.remembering(dir, boot)
				second.clock.start = first.clock.start // one boot, one clock
				l, err := second.tryStrictly("n")
				w.same("taken", err == nil, taken)
				if taken {
					second.release(l)
					w.ok(second.Close(context.Background()))
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
		_, err := p.tryStrictly("n")
		w.is(err, ErrRefused)
		w.sleep(time.Second)
		if !strings.Contains(p.log.String(), "was not kept") {
			w.Error("nothing in the log")
		}
		other := w.remembering(dir, "ours")
		w.ok(os.WriteFile(other.memory.file("n"), []byte("{"), 0o600))
		_, err = other.tryStrictly("n")
		w.is(err, ErrRefused)
	})
}

// This boot has one name for all processes in its time namespace.
func TestThisBoot(t *testing.T) {
	if a, b := thisBoot(), thisBoot(); a != b || strings.Contains(a, "\n") {
		t.Errorf("%q, %q", a, b)
	}
}
