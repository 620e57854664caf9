//go:build linux

package stress

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// TestMounts is TestStorm on a directory whose mount comes and goes. Half of the processes reach
// the share by a mount point. It is unmounted, covered by an empty directory, or moved; and the
// store's root is renamed, and another made in its place.
//
//	A, by the mount point  held ── unmounted ── beats: unreachable ─ lost      │ mounted: as others
//	B, elsewhere                                        TTL ────────── held ───│──────
//
// Nobody works on in a directory that is not the share: all tenures of the ledger are of one
// store. It needs the right to mount, which a namespace of its own gives. Where there is none,
// the root is only renamed.
func TestMounts(t *testing.T) {
	duration(t)
	if os.Getenv(namespaceMark) == "" {
		if inNamespace(t) {
			return
		}
		figures(t, "no right to mount: the root is only renamed")
	}
	onSession := strictly
	onSession.Session = true
	for name, c := range map[string]climate{
		"strict":     {Terms: strictly, Pace: time.Second / 50},
		"session":    {Terms: onSession, Pace: time.Second / 50},
		"permits":    {Terms: strictly, Pace: time.Second / 10, View: host.View{Capacity: 1, Width: 2}},
		"lastwriter": {Terms: lastWriters, Pace: time.Second / 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Was = "first"
			p := newPlace(t, c.Was)
			s := &storm{
				workers: 6, calm: 2 * time.Second, kills: 60, trouble: p.comeAndGo,
				climate: c, direct: p.url(p.share), ways: []string{p.url(p.share), p.url(p.point)},
			}
			if c.Terms.Protocol == core.ProtocolLastWriter {
				s.workers, s.kills = 4, 100
			}
			// The command takes an empty root for a store that was not used yet, as it must.
			if s.command = c.Terms.Session || c.View != (host.View{}); s.command {
				p.events = slices.DeleteFunc(p.events, func(e event) bool { return e.root })
			}
			s.play(t)
			figures(t, "%v", p.befell)
		})
	}
}

// namespaceMark is the variable that says that this process may mount.
const namespaceMark = "STRESS_MOUNTS"

// inNamespace runs the test in a mount namespace of its own, as root there, and returns false where
// there can be none. What is mounted in it goes with it.
func inNamespace(t *testing.T) bool {
	for _, flags := range []string{"-m", "-rm"} {
		if exec.Command("unshare", flags, "mount", "-t", "tmpfs", "none", t.TempDir()).Run() != nil {
			continue
		}
		argv := []string{flags, self, "-test.v", "-test.run=^TestMounts$"}
		if end, bounded := t.Deadline(); bounded {
			argv = append(argv, fmt.Sprint("-test.timeout=", time.Until(end)))
		}
		inside := exec.CommandContext(t.Context(), "unshare", argv...)
		inside.Env = append(os.Environ(), namespaceMark+"=yes", builtMark+"="+binary)
		inside.Stdout, inside.Stderr = os.Stdout, os.Stdout
		if err := inside.Run(); err != nil {
			t.Errorf("in a namespace of its own: %v", err)
		}
		return true
	}
	return false
}

// place is a share with a store below it, and a mount point from which it can be reached as well.
// Without the right to mount both are the same.
type place struct {
	share, point string // the two directories
	aside        string // for what is moved away
	events       []event
	befell       map[string]int
}

// newPlace makes a place, and a store there, in which a name was leased once.
func newPlace(t *testing.T, was string) *place {
	top := t.TempDir()
	p := &place{share: filepath.Join(top, "share"), point: filepath.Join(top, "point"), aside: filepath.Join(top, "aside"), befell: map[string]int{}}
	p.events = append(slices.Clone(mounts), renames...)
	mayMount := os.Getenv(namespaceMark) != ""
	if !mayMount {
		p.point, p.events = p.share, slices.Clone(renames)
	}
	for _, dir := range []string{p.share, p.point, p.aside, filepath.Join(p.share, "locks")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if mayMount {
		if err := p.mount(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // before its directory is removed
			for p.unmount(p.point) == nil {
			}
		})
	}
	h, err := host.Open(t.Context(), "file://"+filepath.Join(p.share, "locks"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	held, err := h.Acquire(t.Context(), was, &host.AcquireOptions{Terms: strictly})
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// url is the store's by a directory. A process that starts while the store is away makes none.
func (p *place) url(dir string) string {
	return "file://" + filepath.Join(dir, "locks") + "?create=false"
}

func (p *place) mount() error { return syscall.Mount(p.share, p.point, "", syscall.MS_BIND, "") }

func (p *place) unmount(at string) error { return syscall.Unmount(at, syscall.MNT_DETACH) }

// event is what befalls the place, and how it is undone.
type event struct {
	name     string
	do, undo func(*place) error
	root     bool // there is an empty root instead: a running process can tell, one that starts cannot
}

// twice changes nothing: the same directory is mounted over itself.
const twice = "mounted twice"

var mounts = []event{
	{name: "unmounted", do: func(p *place) error { return p.unmount(p.point) }, undo: (*place).mount},
	{name: "unmounted if not busy", do: (*place).unmountIfIdle, undo: (*place).mount},
	{name: "covered", do: (*place).cover, undo: func(p *place) error { return p.unmount(p.point) }},
	{name: "covered by an empty root", root: true, do: func(p *place) error {
		return errors.Join(p.cover(), os.Mkdir(filepath.Join(p.point, "locks"), 0o700))
	}, undo: func(p *place) error { return p.unmount(p.point) }},
	{name: "moved", do: func(p *place) error {
		return syscall.Mount(p.point, p.aside, "", syscall.MS_MOVE, "")
	}, undo: func(p *place) error {
		return syscall.Mount(p.aside, p.point, "", syscall.MS_MOVE, "")
	}},
	{name: twice, do: (*place).mount, undo: func(p *place) error { return p.unmount(p.point) }},
}

// renames need no right to mount.
var renames = []event{
	{name: "renamed", do: (*place).rename, undo: (*place).renameBack},
	{name: "renamed, and an empty root made", root: true, do: func(p *place) error {
		return errors.Join(p.rename(), os.Mkdir(filepath.Join(p.share, "locks"), 0o700))
	}, undo: func(p *place) error {
		return errors.Join(os.RemoveAll(filepath.Join(p.share, "locks")), p.renameBack())
	}},
}

// unmountIfIdle unmounts without force. While files are open below, it is refused.
func (p *place) unmountIfIdle() error {
	for range 50 {
		if err := syscall.Unmount(p.point, 0); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return p.unmount(p.point)
}

func (p *place) cover() error { return syscall.Mount("none", p.point, "tmpfs", 0, "") }

func (p *place) rename() error {
	return os.Rename(filepath.Join(p.share, "locks"), filepath.Join(p.share, "away"))
}

func (p *place) renameBack() error {
	return os.Rename(filepath.Join(p.share, "away"), filepath.Join(p.share, "locks"))
}

// strays are the files below the store's path while the store is elsewhere.
func (p *place) strays(t *testing.T) (files []string) {
	err := filepath.WalkDir(filepath.Join(p.point, "locks"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// comeAndGo lets one event after the other befall the place, each for up to some TTLs, until over.
func (p *place) comeAndGo(t *testing.T, over <-chan struct{}) {
	for n := rand.IntN(len(p.events)); ; n++ {
		e := p.events[n%len(p.events)]
		select {
		case <-over:
			return
		case <-time.After(rand.N(2 * time.Second)):
		}
		if err := e.do(p); err != nil {
			t.Errorf("%s: %v", e.name, err)
			return
		}
		p.befell[e.name]++
		time.Sleep(rand.N(3 * time.Second))
		if left := p.strays(t); len(left) > 0 && e.name != twice {
			t.Errorf("%s: written where the store is not: %v", e.name, left)
		}
		if err := e.undo(p); err != nil {
			t.Errorf("%s, undone: %v", e.name, err)
			return
		}
	}
}
