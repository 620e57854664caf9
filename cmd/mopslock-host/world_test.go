//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/console"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/mem"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// A world is what the command lines of one test have in common: stores that outlive each
// of them, and the clock of a synctest bubble. A command line runs in this process, and
// so does the command that it starts (see sh). Nothing waits for the world outside.
type world struct {
	*testing.T
	shelves map[string]*shelf // by bucket
	running sync.WaitGroup

	names  []string // of its scripts' environment
	stdin  string   // for the next command line
	behind map[string]*running

	mu       sync.Mutex
	programs []*program
}

// theWorld is the one of the script that runs; there is one at a time.
var theWorld *world

func newWorld(t *testing.T) *world {
	theWorld = &world{T: t, shelves: map[string]*shelf{}, behind: map[string]*running{}}
	return theWorld
}

// asProgram is the key of the program that opens a store.
type asProgram struct{}

// shelfScheme is that of the stores of worlds.
const shelfScheme = "shelf"

func init() {
	store.Register(shelfScheme, func(ctx context.Context, at *store.Location) (store.Store, error) {
		p, _ := ctx.Value(asProgram{}).(*program)
		return newDoor(theWorld.shelf(at.Bucket), p), nil
	})
}

// shelf is a store as a directory is one: with one winner of each create, and stamps by
// the clock of those who write.
type shelf struct {
	store.Store
	store.Streamer

	mu    sync.Mutex
	fault func(verb, key string) (core.Class, bool)
}

func (w *world) shelf(bucket string) *shelf {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shelves[bucket] == nil {
		s := mem.Open()
		w.shelves[bucket] = &shelf{Store: s, Streamer: s.(store.Streamer)}
	}
	return w.shelves[bucket]
}

// setFault makes the store fail for those requests that it names a class for; nil mends it. ClassNone: there is no
// answer until the caller gives up.
func (s *shelf) setFault(fault func(verb, key string) (core.Class, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// door is the shelf as one program sees it, which sees nothing once it has ended.
type door struct {
	storetest.Fake
	store.Streamer
	shelf *shelf
	by    *program // nil: one that opens the store itself, as doctor does
}

func newDoor(s *shelf, by *program) *door {
	d := &door{Fake: storetest.Fake{Store: s.Store}, Streamer: s.Streamer, shelf: s, by: by}
	d.On = func(ctx context.Context, c *storetest.Call, apply func(context.Context) error) error {
		err := d.enter(ctx, c.Verb, c.Key)
		if e, failed := errors.AsType[*store.Error](err); failed && c.Verb == "create" && e.Class == core.ClassOther { // not honoured
			return s.Put(ctx, c.Key, c.Body, "")
		} else if failed {
			return err
		}
		return apply(ctx)
	}
	return d
}

// took is how long each request takes.
const took = 20 * time.Millisecond

func (d *door) enter(ctx context.Context, verb, key string) error {
	d.shelf.mu.Lock()
	fault := d.shelf.fault
	d.shelf.mu.Unlock()
	pause := time.NewTimer(took)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-pause.C:
	}
	class, fails := core.ClassUnreachable, d.by != nil && d.by.dead()
	if !fails && fault != nil {
		class, fails = fault(verb, key)
	}
	if fails && class == core.ClassNone {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return store.Fail(verb, key, store.ClassOf(err), err)
	}
	if fails {
		return store.Fail(verb, key, class, errors.New("the test has it so"))
	}
	return nil
}

func (d *door) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, kind string) error {
	if err := d.enter(ctx, "create", key); err != nil {
		return err
	}
	return d.Streamer.CreateFrom(ctx, key, body, size, kind)
}

func (d *door) Open(ctx context.Context, key string) (io.ReadCloser, store.Info, error) {
	if err := d.enter(ctx, "open", key); err != nil {
		return nil, store.Info{}, err
	}
	return d.Streamer.Open(ctx, key)
}

func (*door) ClockSteps() (bool, string) { return true, "" }
func (*door) Orderly() bool              { return true }
func (*door) Close() error               { return nil }

// bubbleClock is what hosts go by: both clocks are the bubble's.
type bubbleClock struct{}

func (bubbleClock) Now() core.Instant {
	now := time.Now().UnixNano()
	return core.Instant{Mono: now, Wall: now}
}

// program is one mopslock-host, from its command line to its exit status. It is what its
// app is given in the place of the world: signals, and the start of a command.
type program struct {
	world    *world
	app      *app
	out, err *transcript
	status   int
	ended    chan struct{}

	mu       sync.Mutex
	hosts    []*host.Host
	pipes    map[*os.File]*memoryPipe
	stopped  bool
	command  *job // while it runs
	waits    bool // signals end the wait
	passedOn bool
	waitOver context.CancelCauseFunc
	wait     context.Context
	hurryNow context.CancelCauseFunc
	hurry    context.Context
}

// launch begins a command line. Its stdout is collected, and goes to another writer too.
func (w *world) launch(env []string, stdin io.Reader, stdout, stderr io.Writer, words []string) *program {
	p := &program{world: w, out: new(transcript), err: new(transcript), ended: make(chan struct{}), pipes: map[*os.File]*memoryPipe{}, waits: true}
	p.wait, p.waitOver = context.WithCancelCause(context.Background())
	p.hurry, p.hurryNow = context.WithCancelCause(context.Background())
	p.app = &app{
		stdin: stdin, stdout: io.MultiWriter(p.out, stdout), stderr: io.MultiWriter(p.err, stderr), closing: closeLimit,
		env: env, clock: bubbleClock{}, signals: p, openHost: p.openHost, newPipe: p.newPipe,
	}
	var terminal *os.File
	if p.app.getenv(terminalVariable) != "" {
		terminal, _ = os.Open(os.DevNull)
	}
	p.app.console = console.New(p.app.stderr, terminal)
	if text := p.app.getenv(moduleVariable); text != "" {
		p.app.engine.Module = []byte(text)
	}
	w.mu.Lock()
	w.programs = append(w.programs, p)
	w.mu.Unlock()
	w.running.Go(func() {
		p.status = p.app.execute(words)
		p.end()
		close(p.ended)
	})
	return p
}

// end ends all that is left of a test that has failed.
func (w *world) end() {
	for _, s := range w.shelves {
		s.setFault(nil)
	}
	w.mu.Lock()
	programs := w.programs
	w.mu.Unlock()
	for _, p := range programs {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
			p.signal(sig)
		}
	}
	w.running.Wait()
}

// end is what becomes of a process at its exit: nobody hears of its hosts any more.
func (p *program) end() {
	p.mu.Lock()
	p.stopped = true
	hosts := p.hosts
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, h := range hosts {
		_ = h.Close(ctx)
	}
	p.waitOver(nil)
	p.hurryNow(nil)
}

func (p *program) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

func (p *program) openHost(ctx context.Context, url string, opts *host.Options) (*host.Host, error) {
	opts.Boot, opts.Memory = "this-boot", "-"
	h, err := host.Open(context.WithValue(ctx, asProgram{}, p), url, opts)
	if err == nil {
		p.mu.Lock()
		p.hosts = append(p.hosts, h)
		p.mu.Unlock()
	}
	return h, err
}

// A program is the signals of its app.

func (p *program) WaitContext(parent context.Context) (context.Context, context.CancelFunc) {
	return either(parent, p.wait)
}

func (p *program) ReleaseContext(parent context.Context) (context.Context, context.CancelFunc) {
	return either(parent, p.hurry)
}

// either ends with the first of the two.
func either(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

func (p *program) Stop() {}

func (p *program) Forwarded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passedOn
}

// signal is sent to the program.
func (p *program) signal(sig syscall.Signal) {
	ends := slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}, sig)
	p.mu.Lock()
	command, waits := p.command, p.waits
	p.passedOn = p.passedOn || command != nil && ends
	p.mu.Unlock()
	switch {
	case sig == syscall.SIGKILL: // nobody hears of it any more, and it ends as soon as it can
		p.mu.Lock()
		p.stopped = true
		p.mu.Unlock()
		p.waitOver(&child.Interrupted{Signal: sig})
		if command != nil { // itself, as a parent-death signal does
			command.cancel(killed{sig})
		}
	case command != nil:
		command.signal(sig)
	case waits && ends:
		p.waitOver(&child.Interrupted{Signal: sig})
	case sig == syscall.SIGINT || sig == syscall.SIGTERM:
		p.hurryNow(&child.Interrupted{Signal: sig})
	}
}

func (p *program) Start(options child.Options) (command, error) {
	if cause := context.Cause(p.wait); cause != nil {
		return nil, cause
	}
	if err := startable(options.Argv[0]); err != nil {
		return nil, err
	}
	j := newJob(p.world, options.Env, p.app.stdin, p.outlet(options.Stdout, p.app.stdout), p.outlet(options.Stderr, p.app.stderr))
	p.mu.Lock()
	p.command, p.waits, p.passedOn = j, false, false
	p.mu.Unlock()
	p.world.running.Go(func() {
		status := j.run(options.Argv)
		p.mu.Lock()
		p.command, p.waits = nil, options.ThenWait
		p.mu.Unlock()
		j.status = status
		close(j.done)
	})
	return j, nil
}

// startable is what a command that is not there, or cannot be executed, comes to.
func startable(name string) error {
	switch {
	case name == "" || strings.HasPrefix(name, "no-such") || name == "./no/such":
		return &child.StartError{Status: child.StatusNotFound, Name: name, Err: errors.New("command not found")}
	case name == "." || name == "./notexec":
		return &child.StartError{Status: child.StatusCannotExecute, Name: name, Err: syscall.EACCES}
	}
	return nil
}

// outlet is where a command prints: file is what our own code has put in the place of ours.
func (p *program) outlet(file *os.File, ours io.Writer) io.Writer {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch pipe := p.pipes[file]; {
	case pipe != nil:
		return pipe
	case file == nil:
		return ours
	case file == os.Stderr:
		return p.app.stderr
	}
	return file
}

// memoryPipe is a pipe in memory: a bubble would wait for a real one.
type memoryPipe struct {
	file *os.File // known by it, and nothing else
	mu   sync.Mutex
	take func([]byte)
}

func (p *program) newPipe(take func([]byte)) (pipe, error) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	t := &memoryPipe{file: file, take: take}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pipes[file] = t
	return t, nil
}

func (t *memoryPipe) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.take != nil {
		t.take(text)
	}
	return len(text), nil
}

func (t *memoryPipe) Writer() *os.File { return t.file }
func (t *memoryPipe) Started()         {}
func (t *memoryPipe) Drop()            { t.Finish(nil) }
func (t *memoryPipe) Finish(<-chan time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take = nil
	_ = t.file.Close()
}

// transcript collects what a process prints.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
