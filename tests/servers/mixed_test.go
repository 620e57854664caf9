//go:build unix

package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// older is the commit whose command is the other half of the fleet: users replace processes
// one by one.
const older = "e422dc0abb0d2bce0ff2099864dd1bd86084bef2"

// newer is the name of this tree's build.
const newer = "newer"

// A lease of longTTL outlives its story. A lease of shortTTL expires soon when no process
// renews it, but not because the machine is busy.
const (
	longTTL  = time.Minute
	shortTTL = 8 * time.Second
)

// atOnce is how many stories are told at once: most of them wait, but each has processes.
const atOnce = 32

var (
	strict     = form{"strict", core.ProtocolStrict, "run", []string{"--protocol", "strict"}}
	session    = form{"session", core.ProtocolStrict, "run", []string{"--protocol", "strict", "--session"}}
	lastWriter = form{"lastwriter", core.ProtocolLastWriter, "run", []string{"--protocol", "lastwriter"}}
	permit     = form{"permit", core.ProtocolStrict, "permit", []string{"--capacity", "2"}}

	// fleetStories begin with those that take longest.
	fleetStories = []struct {
		name  string
		tell  func(*fleet)
		forms []form
	}{
		{"companion", (*fleet).companion, []form{strict, session, lastWriter}},
		{"dead", (*fleet).dead, []form{strict, session, lastWriter}},
		{"renewals", (*fleet).renewals, []form{strict, session, lastWriter}},
		{"break", (*fleet).breaks, []form{strict, session, lastWriter}},
		{"permits", (*fleet).permits, []form{permit}},
		{"turns", (*fleet).turns, []form{strict, session, lastWriter}},
		{"handle", (*fleet).handle, []form{strict, session, lastWriter}},
		{"crowd", (*fleet).crowd, []form{strict, session, permit}}, // lastwriter does not exclude in a crowd
		{"invocation", (*fleet).invocation, []form{strict, lastWriter}},
	}
)

// TestMixedFleets: a fleet of two builds is exact. The command of an older commit and that of
// this tree keep their promises to each other, whichever comes first, on a directory and on
// a server. Each story has a store of its own.
func TestMixedFleets(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command of an older commit")
	}
	server := use(t, S3)
	then := build{"older", buildOlder(t)}
	now := build{newer, filepath.Join(t.TempDir(), "mopslock-host")}
	buildCommand(t, module, now.command)
	urls := map[string]func() string{
		"file": func() string { return "file://" + t.TempDir() },
		S3: func() string { // a build refuses a parameter that it does not know: the older one, clock
			return strings.ReplaceAll(server.Under(server.Address, fresh("mixed")), "&clock=steady", "")
		},
	}
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, story := range fleetStories {
		for _, form := range story.forms {
			for where, url := range urls {
				for _, order := range [][2]build{{then, now}, {now, then}} {
					f := &fleet{form: form, a: order[0], b: order[1], url: url(), dir: t.TempDir(), env: server.Env(server.Address)}
					room <- struct{}{}
					all.Go(func() {
						defer func() { <-room }()
						t.Run(fmt.Sprintf("%s/%s/%s/%s first", story.name, form.name, where, f.a.name), func(t *testing.T) {
							f.T = t
							story.tell(f)
						})
					})
				}
			}
		}
	}
	all.Wait()
}

// buildOlder builds the older command from the history, in a directory of its own. A clone
// without that commit, such as a shallow one, skips the test.
func buildOlder(t *testing.T) (command string) {
	t.Helper()
	if said, err := exec.Command("git", "cat-file", "-e", older+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("this clone does not have commit %s: %v: %s", older, err, said)
	}
	dir := t.TempDir()
	tree, command := filepath.Join(dir, "tree.tar"), filepath.Join(dir, "mopslock-host")
	for _, words := range [][]string{
		{"git", "-C", module, "archive", "-o", tree, older},
		{"tar", "-x", "-C", dir, "-f", tree},
	} {
		if said, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", words, err, said)
		}
	}
	buildCommand(t, dir, command)
	return command
}

// turns: the builds take the lease in turn, and its tokens grow. Each sees what the other
// does, and auto is the protocol that the other used, or bridge where that was lastwriter.
func (f *fleet) turns() {
	last := held{}
	for _, by := range []build{f.a, f.b, f.a} {
		next := f.claims(by, longTTL, "--wait", "0").got()
		f.follows(last, next)
		f.holds(next)
		next.letGo()
		if seen, listed := f.sees("released", next), f.looks(0, "ls", "--json"); !reflect.DeepEqual(seen, listed) {
			f.Errorf("seen %+v, listed %+v", seen, listed)
		}
		last = next
	}
	for _, by := range []build{f.a, f.b} {
		lease := f.run(by, 0, "acquire", name, "--ttl", longTTL.String(), "--wait", "0")
		want := f.form.protocol
		if want == core.ProtocolLastWriter && by.name == newer { // the older one has no bridge
			want = core.ProtocolBridge
		}
		if got := parse[seen](f, lease).Protocol; got != want.String() {
			f.Errorf("auto is %s for the %s build", got, by.name)
		}
		f.run(by, 0, "release", lease)
	}
}

// handle: the builds renew, accompany and release the lease that one of them has printed.
func (f *fleet) handle() {
	first := f.run(f.a, 0, f.words("acquire", longTTL)...)
	lease := first
	for _, by := range []build{f.b, f.a, f.b} {
		lease = f.run(by, 0, "renew", lease)
	}
	was, is := parse[seen](f, first), parse[seen](f, lease)
	if is.Holder != was.Holder || is.Token != was.Token || is.Epoch < was.Epoch {
		f.Errorf("after renewals the lease is %s, and was %s", lease, first)
	}
	holder := held{process: &process{ttl: longTTL}, holder: was.Holder, token: was.Token}
	f.holds(holder)
	companion := f.accompanies(holder, nil, "--lease", lease)
	f.holds(holder)
	f.run(f.b, 0, "release", lease)
	f.sees("released", holder)
	companion.letGo()
	for _, by := range []build{f.a, f.b} {
		f.run(by, 0, "release", lease) // it is released already
		f.run(by, 76, "renew", lease)
		if out := f.run(by, 3, "accompany", "--lease", lease, "--lost-status", "3", "--", "echo", "ran"); out != "" {
			f.Errorf("the %s build accompanies what is released: %s", by.name, out)
		}
	}
}

// renewals: a holder renews its lease for longer than a TTL: a waiter of either build does not
// get it. When the holder has released it, a waiter of the other build does.
func (f *fleet) renewals() {
	holder := f.claims(f.a, shortTTL).got()
	f.nobodyGets(holder)
	waiter := f.claims(f.b, shortTTL)
	holder.letGo()
	next := waiter.got()
	f.follows(holder, next)
	f.holds(next)
	next.letGo()
}

// nobodyGets has both builds wait for a lease for longer than its TTL.
func (f *fleet) nobodyGets(holder held) {
	f.Helper()
	patient := []string{"--wait", (holder.ttl * 3 / 2).String()}
	one, other := f.claims(f.a, holder.ttl, patient...), f.claims(f.b, holder.ttl, patient...)
	one.ended(75)
	other.ended(75)
	f.holds(holder)
}

// companion: a companion keeps the lease of a holder of the other build, which is killed,
// alive for longer than a TTL: a waiter of either build does not get it. When the companion
// has ended, a waiter does.
func (f *fleet) companion() {
	holder := f.claims(f.a, shortTTL).got()
	companion := f.accompanies(holder, []string{"MOPSLOCK_LEASE=" + holder.lease})
	if got := f.holds(holder); f.form.protocol == core.ProtocolStrict && len(got.Companions) != 1 {
		f.Errorf("companions %q", got.Companions)
	}
	holder.killed()
	f.nobodyGets(holder)
	waiter := f.claims(f.a, shortTTL)
	companion.letGo()
	next := waiter.got()
	f.follows(holder, next)
	f.holds(next)
	next.letGo()
}

// dead: a waiter gets the lease of a holder of the other build that is killed. Then the other
// build's waiter gets it from a holder that is stopped: that one knows when it goes on, and
// has changed nothing.
func (f *fleet) dead() {
	dead := f.claims(f.a, shortTTL).got()
	f.holds(dead)
	waiter := f.claims(f.b, shortTTL)
	dead.killed()
	stopped := waiter.got()
	f.follows(dead, stopped)
	f.holds(stopped)
	waiter = f.claims(f.a, shortTTL)
	stopped.signals(syscall.SIGSTOP)
	last := waiter.got()
	f.follows(stopped, last)
	f.holds(last)
	stopped.signals(syscall.SIGCONT)
	stopped.ended(76)
	f.holds(last)
	last.letGo()
	f.sees("released", last)
}

// breaks: each build breaks the lease of the other's holder, which ends, and no other's.
func (f *fleet) breaks() {
	ttl, state := shortTTL, "broken"
	if f.form.protocol == core.ProtocolLastWriter {
		// A renewal that is under way would undo the break: the first one comes later.
		ttl, state = storyTTL, "released"
	}
	file := filepath.Join(f.dir, "status")
	first := f.claims(f.a, ttl, "--status-file", file).got()
	f.run(f.b, 75, "break", name, "--why", "it hangs", "--yes", "--holder", "3f0c2b1a-5d6e-4f70-8192-a3b4c5d6e7f8")
	f.holds(first)
	f.run(f.b, 0, "break", name, "--why", "it hangs", "--yes", "--holder", first.holder)
	first.ended(76)
	if got := f.sees(state, first); state == "broken" && (got.Why != "it hangs" || got.By == "") {
		f.Errorf("broken by %q: %q", got.By, got.Why)
	}
	if text, err := os.ReadFile(file); err != nil || parse[outcome](f, string(text)) != (outcome{"mopslock", 76, state}) {
		f.Errorf("the holder ended: %s %v", text, err)
	}
	second := f.claims(f.b, ttl).got()
	f.follows(first, second)
	f.holds(second)
	f.run(f.a, 0, "break", name, "--why", "it hangs", "--yes", "--now")
	third := f.claims(f.a, ttl, "--wait", "0").got()
	f.follows(second, third)
	second.ended(76)
	f.holds(third)
	third.letGo()
}

// permits: the builds share two permits, and a limit in the store. A waiter gets the permit of
// the other build's killed holder.
func (f *fleet) permits() {
	first := f.claims(f.a, shortTTL).got()
	second := f.claims(f.b, shortTTL).got()
	f.follows(first, second)
	f.full(first, second)
	first.letGo()
	third := f.claims(f.a, shortTTL, "--wait", "0").got()
	f.follows(second, third)
	f.full(second, third)
	waiter := f.claims(f.a, shortTTL)
	second.killed()
	fourth := waiter.got()
	f.follows(third, fourth)
	f.full(third, fourth)
	third.letGo()
	fourth.letGo()
	last := f.claims(f.a, shortTTL, "--store-limit", "1").got()
	f.follows(fourth, last)
	f.full(last)
	next := f.claims(f.b, shortTTL, "--store-limit", "2").got()
	f.follows(last, next)
	f.full(last, next)
	last.letGo()
	next.letGo()
	if got := f.looks(1, "status", name, "--json"); got.Held != 0 || got.Limit != 2 {
		f.Errorf("in the end %+v", got)
	}
}

// crowd: commands of both builds want the name at once. No more hold it than may, and the
// tokens of a lease grow.
func (f *fleet) crowd() {
	log := filepath.Join(f.dir, "log")
	script := `echo "+ $MOPSLOCK_TOKEN" >>"$0" && "$@" && echo "- $MOPSLOCK_TOKEN" >>"$0"`
	var all []*process
	for range 4 {
		for _, order := range [][2]build{{f.a, f.b}, {f.b, f.a}} {
			look := []string{"--", "sh", "-c", script, log, order[1].command, "status", name}
			all = append(all, f.start(order[0], nil, append(f.words(f.form.verb, storyTTL), look...)...))
		}
	}
	for _, p := range all {
		p.ended(0)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		f.Fatal(err)
	}
	most := 1
	if f.form.name == permit.name {
		most = 2
	}
	var holding, last, times int
	for line := range strings.Lines(string(text)) {
		var sign string
		var token int
		if _, err := fmt.Sscan(line, &sign, &token); err != nil {
			f.Fatal(err)
		}
		if sign == "-" {
			holding--
			continue
		}
		times++
		if holding++; holding > most || most == 1 && token <= last {
			f.Fatalf("%d hold it, and token %d is after %d:\n%s", holding, token, last, text)
		}
		last = token
	}
	if times != len(all) {
		f.Errorf("%d of %d got it", times, len(all))
	}
}

// invocation: a remote of one build does what the other has launched. Both builds get its
// result: the launcher, one that waits for it, and those that ask later.
func (f *fleet) invocation() {
	invoke := func(by build, more ...string) *process {
		return f.start(by, nil, append(f.words("invoke", longTTL), more...)...)
	}
	first := invoke(f.a, "--", f.b.command, "remote", name, "--", "cat")
	f.eventually("the launcher holds the name", func() bool {
		status := f.start(f.b, nil, "status", name)
		return status.Wait() == nil
	})
	invoke(f.b, "--wait", "0", "--", "false").ended(75)
	waiter := invoke(f.b, "--", "false")
	if _, err := io.WriteString(first.stdin, "done\n"); err != nil {
		f.Fatal(err)
	}
	_ = first.stdin.Close() // the remote's cat ends
	for _, p := range []*process{first, waiter, invoke(f.a, "--", "false"), invoke(f.b, "--", "false")} {
		if got := p.all(0); got != "done\n" {
			f.Errorf("%q", got)
		}
	}
	f.run(f.b, 1, "status", name)
}
