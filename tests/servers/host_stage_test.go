package servers

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// story is what users do with hosts, in real time, on one store.
type story struct {
	name string
	tell func(*scene)
	// strict: it is about what lastwriter has not.
	strict bool
	// ttl is told where somebody waits for it to pass, or for a renewal, which is a third
	// of it. Elsewhere it is a minute. It is never so short that a slow machine loses what
	// is to be held.
	ttl time.Duration
}

// TestHost tells every story on a directory and on each real server, by both
// protocols. Each has a prefix of its own, and all go on at once.
func TestHost(t *testing.T) {
	var kinds sync.WaitGroup // t.Parallel would keep to the number of processors, and these wait
	for _, kind := range append([]string{"file"}, Kinds...) {
		kinds.Go(func() { t.Run(kind, func(t *testing.T) { tellAll(t, kind) }) })
	}
	kinds.Wait()
}

func tellAll(t *testing.T, kind string) {
	under := stage(t, kind)
	var all sync.WaitGroup
	for _, s := range stories {
		for _, protocol := range []core.Protocol{core.ProtocolStrict, core.ProtocolLastWriter} {
			if s.strict && protocol != core.ProtocolStrict {
				continue
			}
			name := fmt.Sprint(s.name, " ", protocol)
			at := under(strings.ReplaceAll(name, " ", "-"))
			terms := host.Terms{Protocol: protocol, TTL: cmp.Or(s.ttl, time.Minute), FleetExpire: core.None}
			all.Go(func() {
				t.Run(name, func(t *testing.T) { s.tell(&scene{T: t, url: at, terms: terms}) })
			})
		}
	}
	all.Wait()
}

// stage is a store, as URLs of its parts.
func stage(t *testing.T, kind string) (under func(prefix string) string) {
	if kind == "file" {
		dir := t.TempDir()
		return func(prefix string) string { return "file://" + filepath.ToSlash(filepath.Join(dir, prefix)) }
	}
	s := Need(t, kind)
	return func(prefix string) string { return s.Under(s.Address, prefix) }
}

// scene is one story on one store.
type scene struct {
	*testing.T
	url   string
	terms host.Terms
}

// host adds a host, which is closed in the end.
func (s *scene) host() *host.Host {
	s.Helper()
	h, err := host.Open(context.Background(), s.url, &host.Options{Memory: "-"})
	s.ok(err)
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			s.Errorf("close: %v", err)
		}
	})
	return h
}

// patience bounds what has no bound of its own, and is far above all TTLs.
const patience = 100 * time.Second

func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	return ctx
}

func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// is fails the test unless err is the target.
func (s *scene) is(err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("error %v; want %v (%+v)", err, target, target)
	}
}

func (s *scene) same(what string, got, want any) {
	s.Helper()
	if got != want {
		s.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// eventually polls for what real time brings about.
func (s *scene) eventually(what string, true func() bool) {
	s.Helper()
	const step = 20 * time.Millisecond
	for range patience / step {
		if true() {
			return
		}
		time.Sleep(step)
	}
	s.Fatalf("never came: %s", what)
}

func (s *scene) acquire(h *host.Host, name string) *host.Lease {
	s.Helper()
	l, err := h.Acquire(s.ctx(), name, &host.AcquireOptions{Terms: s.terms})
	s.ok(err)
	return l
}

func (s *scene) try(h *host.Host, name string) (*host.Lease, error) {
	return h.TryAcquire(s.ctx(), name, &host.AcquireOptions{Terms: s.terms})
}

// free takes the lease, which must be had at once, and gives it back.
func (s *scene) free(h *host.Host, name string) {
	s.Helper()
	l, err := s.try(h, name)
	s.ok(err)
	s.ok(l.Release(s.ctx()))
}

// after fails the test unless the token is of a later tenure; lastwriter has none.
func (s *scene) after(l *host.Lease, token uint64) {
	s.Helper()
	if s.terms.Protocol == core.ProtocolStrict && l.FencingToken() <= token {
		s.Fatalf("token %d comes after %d", l.FencingToken(), token)
	}
}

// process is another process that holds a lease until it is killed.
type process struct {
	cmd *exec.Cmd
	// Handle is what it gives to companions, Owner what it keeps for itself.
	Handle, Owner host.Handle
}

const holdEnv = "MOPSLOCK_TEST_HOLD"

// holding is what the process is told.
type holding struct {
	URL, Name string
	Terms     host.Terms
}

// holder starts a process that holds a lease, and returns when it does.
func (s *scene) holder(name string) *process {
	s.Helper()
	told, err := json.Marshal(holding{s.url, name, s.terms})
	s.ok(err)
	p := &process{cmd: exec.Command(os.Args[0], "-test.run=^TestHostProcess$")}
	p.cmd.Env = append(os.Environ(), holdEnv+"="+string(told))
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe() // it ends with us
	s.ok(err)
	stdout, err := p.cmd.StdoutPipe()
	s.ok(err)
	s.ok(p.cmd.Start())
	s.Cleanup(func() {
		_ = stdin.Close()
		s.kill(p)
	})
	lines := bufio.NewScanner(stdout)
	for _, handle := range []*host.Handle{&p.Handle, &p.Owner} {
		if !lines.Scan() {
			s.Fatalf("the process said no handle: %v", lines.Err())
		}
		*handle, err = host.ParseHandle(lines.Text())
		s.ok(err)
	}
	return p
}

// kill ends a process with SIGKILL.
func (s *scene) kill(p *process) {
	if err := p.cmd.Process.Kill(); err == nil {
		_ = p.cmd.Wait() // killed, as it should be
	}
}

// TestHostProcess is what holder starts; by itself it is nothing.
func TestHostProcess(t *testing.T) {
	told := os.Getenv(holdEnv)
	if told == "" {
		return
	}
	var h holding
	if err := json.Unmarshal([]byte(told), &h); err != nil {
		t.Fatal(err)
	}
	opened, err := host.Open(t.Context(), h.URL, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := opened.Acquire(t.Context(), h.Name, &host.AcquireOptions{Terms: h.Terms})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Handle())
	fmt.Println(l.OwnerHandle())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed, or its parent is
	_ = opened.Close(t.Context())
}
