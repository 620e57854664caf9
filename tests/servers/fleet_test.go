//go:build unix

package servers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// module is where the sources of this tree are.
var module = filepath.Join("..", "..")

// buildCommand builds the command of a tree, as make build does.
func buildCommand(t *testing.T, tree, command string) {
	t.Helper()
	build := exec.Command("go", "build", "-tags", "disable_grpc_modules", "-ldflags", "-s -w", "-o", command, "./cmd/mopslock-host")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// name is what every fleet wants; each has a store of its own.
const name = "n"

// fleet is the commands of two builds on one name. a comes first.
type fleet struct {
	*testing.T
	form     form
	a, b     build
	url, dir string
	env      []string
}

type build struct{ name, command string }

// form is a way to hold a name, and how the command is asked for it.
type form struct {
	name     string
	protocol core.Protocol
	verb     string
	flags    []string
}

// words are a command's for the fleet's name and form.
func (f *fleet) words(verb string, ttl time.Duration) []string {
	return append([]string{verb, name, "--ttl", ttl.String()}, f.form.flags...)
}

// run runs a command to its end, and returns what it has printed.
func (f *fleet) run(by build, status int, words ...string) (stdout string) {
	f.Helper()
	return f.start(by, nil, words...).all(status)
}

// says is what a process of a story runs while it holds the name: it says what it holds, and
// ends with its stdin.
const says = `echo "$MOPSLOCK_HOLDER $MOPSLOCK_TOKEN $MOPSLOCK_LEASE"; exec cat`

// claims starts a command that wants the name.
func (f *fleet) claims(by build, ttl time.Duration, flags ...string) *process {
	f.Helper()
	p := f.start(by, nil, append(append(f.words(f.form.verb, ttl), flags...), "--", "sh", "-c", says)...)
	p.ttl = ttl
	return p
}

// accompanies starts a companion of b, and returns when it has joined the holder's lease.
func (f *fleet) accompanies(holder held, env []string, flags ...string) *process {
	f.Helper()
	p := f.start(f.b, env, append(append([]string{"accompany"}, flags...), "--", "sh", "-c", says)...)
	if joined := p.got(); joined.holder != holder.holder || joined.token != holder.token {
		f.Errorf("a companion of %s %d, and the holder is %s %d", joined.holder, joined.token, holder.holder, holder.token)
	}
	return p
}

// process is a started command.
type process struct {
	*exec.Cmd
	f     *fleet
	ttl   time.Duration
	stdin io.WriteCloser
	out   *bufio.Reader
	said  bytes.Buffer // on stderr; read it when the process has ended
}

// start starts a command, which is killed when the story ends.
func (f *fleet) start(by build, env []string, words ...string) *process {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &process{Cmd: exec.CommandContext(ctx, by.command, words...), f: f}
	f.Cleanup(func() {
		cancel()
		_ = p.Wait()
	})
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			p.Env = append(p.Env, line)
		}
	}
	p.Env = append(append(p.Env, f.env...), "MOPSLOCK_STORE="+f.url, "XDG_CACHE_HOME="+f.dir) // both builds have one memory
	p.Env = append(p.Env, env...)
	p.Stderr = &p.said
	p.WaitDelay = time.Second // what a killed command has started can keep our pipes
	out, err := p.StdoutPipe()
	if err == nil {
		p.out = bufio.NewReader(out)
		p.stdin, err = p.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// ended waits until a process has ended, and checks its status; -1 is a signal's.
func (p *process) ended(status int) {
	p.f.Helper()
	_ = p.Wait()
	if got := p.ProcessState.ExitCode(); got != status {
		p.f.Errorf("%q ended with %d, want %d: %s", p.Args, got, status, p.said.String())
	}
}

// all waits for the end, and returns what the process has printed.
func (p *process) all(status int) (stdout string) {
	p.f.Helper()
	text, err := io.ReadAll(p.out)
	if err != nil {
		p.f.Error(err)
	}
	p.ended(status)
	return string(text)
}

// letGo has a process end.
func (p *process) letGo() {
	p.f.Helper()
	_ = p.stdin.Close()
	p.ended(0)
}

func (p *process) killed() {
	p.f.Helper()
	p.signals(syscall.SIGKILL)
	p.ended(-1)
}

func (p *process) signals(s syscall.Signal) {
	p.f.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.f.Error(err)
	}
}

// held is a process with the name, and what it was told of it.
type held struct {
	*process
	holder string
	token  uint64
	lease  string
}

// got waits until a process has the name.
func (p *process) got() held {
	p.f.Helper()
	line, err := p.out.ReadString('\n')
	h := held{process: p}
	if err == nil {
		_, err = fmt.Sscan(line, &h.holder, &h.token)
	}
	if err != nil {
		_ = p.Process.Kill()
		_ = p.Wait()
		p.f.Fatalf("%q: %q, %v, %v: %s", p.Args, line, err, p.ProcessState, p.said.String())
	}
	if at := strings.IndexByte(line, '{'); at >= 0 { // a permit has no text
		h.lease = line[at:]
	}
	return h
}

// follows checks that one holder comes after another: a new tenure, and its token is greater.
func (f *fleet) follows(last, next held) {
	f.Helper()
	greater := next.token > last.token
	if f.form.protocol == core.ProtocolLastWriter {
		greater = next.token == 0 // it has none
	}
	if next.holder == last.holder || !greater {
		f.Errorf("%s with token %d comes after %s with token %d", next.holder, next.token, last.holder, last.token)
	}
}

// holds checks that nobody else gets a lease, and that both builds see who has it.
func (f *fleet) holds(holder held) seen {
	f.Helper()
	for _, by := range []build{f.a, f.b} {
		f.run(by, 75, append(f.words(f.form.verb, holder.ttl), "--wait", "0", "--", "true")...)
	}
	return f.sees("held", holder)
}

// seen is what status and ls print, but for what passes with time.
type seen struct {
	Name, Protocol, State, Holder, By, Why string
	Epoch, Token, Held, Limit              uint64
	Companions                             []string
	TTL                                    float64 `json:"ttl_s"`
	Capacity, Width                        int
	Holders                                []struct {
		Holder, Session string
		Weight          uint64
		Stale           bool
	}
}

// outcome is what a command writes to its --status-file.
type outcome struct {
	By     string
	Status int
	Reason string
}

// sees checks what both builds see of a lease.
func (f *fleet) sees(state string, last held) seen {
	f.Helper()
	status := 0
	if state == "released" {
		status = 1
	}
	got := f.looks(status, "status", name, "--json")
	if got.Name != name || got.Protocol != f.form.protocol.String() || got.State != state || got.Holder != last.holder || got.Token != last.token || got.Epoch < got.Token {
		f.Errorf("%+v, want %s by %s with token %d", got, state, last.holder, last.token)
	}
	return got
}

// looks has both builds look at the name, and checks that they see the same.
func (f *fleet) looks(status int, words ...string) seen {
	f.Helper()
	one, other := parse[seen](f, f.run(f.a, status, words...)), parse[seen](f, f.run(f.b, status, words...))
	if f.form.protocol == core.ProtocolLastWriter {
		one.Companions, other.Companions = nil, nil // it shows the last owner that wrote
	}
	if !reflect.DeepEqual(one, other) {
		f.Errorf("one sees %+v, the other %+v", one, other)
	}
	return one
}

// full checks that these hold all permits that there are, and that no build gets another.
func (f *fleet) full(holders ...held) {
	f.Helper()
	for _, by := range []build{f.a, f.b} {
		f.run(by, 75, append(f.words(f.form.verb, shortTTL), "--wait", "0", "--", "true")...)
	}
	got := f.looks(0, "status", name, "--json")
	var want, have []string
	for _, h := range holders {
		want = append(want, h.holder)
	}
	for _, h := range got.Holders {
		if have = append(have, h.Holder); h.Stale || h.Weight != 1 {
			f.Errorf("%+v", h)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) || got.Held != uint64(len(want)) || got.Capacity != 2 || got.Width != 1 {
		f.Errorf("%+v, want it held by %q", got, want)
	}
}

// eventually waits for an event.
func (f *fleet) eventually(what string, happened func() bool) {
	f.Helper()
	const step = 20 * time.Millisecond
	for end := time.Now().Add(patience); !happened(); time.Sleep(step) {
		if time.Now().After(end) {
			f.Fatalf("not after %v: %s", patience, what)
		}
	}
}

func parse[T any](f *fleet, text string) (out T) {
	f.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		f.Fatalf("%q: %v", text, err)
	}
	return out
}
