package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// shared is a cache of compiled modules for all tests of one run.
var shared string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "mopslock-wasm-")
		if err != nil {
			panic("wasm: " + err.Error())
		}
		defer os.RemoveAll(dir)
		shared = dir
		return m.Run()
	}())
}

func testEngine(tb testing.TB) *Engine {
	tb.Helper()
	e, err := Open(context.Background(), &Options{CacheDir: shared})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return e
}

func testGuest(tb testing.TB) *Guest {
	tb.Helper()
	g, err := testEngine(tb).NewGuest(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func leaseConfig(seed byte) core.Config {
	return core.Config{
		Machine: core.MachineLease, Protocol: core.ProtocolLastWriter, Name: "nightly/report", TTL: time.Minute,
		Seed: [16]byte{seed, 1}, Host: "host.example.org", PID: "4711", TID: 4711,
	}
}

// renewal is a lease and a host that does nothing but what a renewal asks.
type renewal struct {
	machine core.Stepper
	now     core.Instant
	wake    int64
	event   core.Event
	body    []byte
}

func newRenewal(tb testing.TB, machine core.Stepper) *renewal {
	r := &renewal{
		machine: machine, now: core.Instant{Mono: 1, Wall: 1_760_000_000_000_000_000},
		event: core.Event{Kind: core.EventAcquire, Wait: core.Forever},
	}
	for range 40 {
		r.step(tb)
	}
	if machine.String() != "held" {
		tb.Fatal(machine)
	}
	return r
}

func (r *renewal) step(tb testing.TB) {
	actions, err := r.machine.Step(r.now, r.event)
	if err != nil {
		tb.Fatal(err)
	}
	r.event = core.Event{Kind: core.EventWoke}
	for i := range actions {
		switch a := &actions[i]; a.Kind {
		case core.ActionGet:
			r.event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes, Body: r.body}
			if len(r.body) == 0 {
				r.event.Outcome = core.OutcomeNo
			}
		case core.ActionPut:
			r.body = append(r.body[:0], a.Body...)
			r.event = core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
		case core.ActionWake:
			r.wake = a.At
		}
	}
	passed := int64(time.Millisecond)
	if r.event.Kind == core.EventWoke {
		passed = max(passed, r.wake-r.now.Mono)
	}
	r.now.Mono += passed
	r.now.Wall += passed
}

// TestNoAllocations: a step allocates nothing on this side of the border.
func TestNoAllocations(t *testing.T) {
	e := testEngine(t)
	machine, err := e.New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	r := newRenewal(t, machine)
	if n := testing.AllocsPerRun(300, func() { r.step(t) }); n != 0 {
		t.Errorf("a machine's step: %v allocations", n)
	}
	guest := testGuest(t)
	cfg := leaseConfig(1)
	h, answer, err := guest.New(nil, core.AppendConfig(nil, &cfg))
	if err != nil {
		t.Fatal(err)
	}
	input := core.AppendInput(nil, core.Instant{}, &core.Event{Kind: core.EventWoke})
	if n := testing.AllocsPerRun(300, func() {
		if answer, err = guest.Step(answer[:0], h, input); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a message's step: %v allocations", n)
	}
}

// TestMemoryFlat: 5 million steps of renewals, and machines that come and go
// and err, leave the guest as large as the first of them did.
func TestMemoryFlat(t *testing.T) {
	t.Parallel()
	const handles, steps = 64, 5_000_000
	e := testEngine(t)
	var leases [handles]*renewal
	for i := range leases {
		machine, err := e.New(leaseConfig(byte(i)))
		if err != nil {
			t.Fatal(err)
		}
		leases[i] = newRenewal(t, machine)
	}
	churn := func() {
		machine, err := e.New(leaseConfig(255))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := machine.Step(core.Instant{}, core.Event{Kind: core.EventAnswer}); err == nil {
			t.Fatal("an answer to nothing")
		}
		e.Drop(machine)
	}
	var before uint64
	for i := range steps {
		leases[i%handles].step(t)
		if i%1000 == 0 {
			churn()
		}
		if i == steps/50 { // by now it has collected garbage several times
			before = e.guest.Memory()
		}
	}
	if after := e.guest.Memory(); after != before {
		t.Errorf("the guest had %d bytes after %d steps and %d after %d", before, steps/50, after, steps)
	}
}

// TestRefusedConfigsAreCollected: however long they are, and however many live.
func TestRefusedConfigsAreCollected(t *testing.T) {
	t.Parallel()
	g := testGuest(t)
	for range 2000 {
		cfg := leaseConfig(1)
		if h, _, err := g.New(nil, core.AppendConfig(nil, &cfg)); err != nil || h == 0 {
			t.Fatal(h, err)
		}
	}
	long := leaseConfig(1)
	long.Name = strings.Repeat("x", 90_000)
	config := core.AppendConfig(nil, &long)
	before := g.Memory()
	for range 2000 { // 180 MB
		if h, _, err := g.New(nil, config); err != nil || h != 0 {
			t.Fatal(h, err)
		}
	}
	if after := g.Memory(); after > before+16<<20 {
		t.Errorf("%d bytes, before %d", after, before)
	}
}

// TestLooksAreCollected: what somebody wrote into a record is no garbage.
func TestLooksAreCollected(t *testing.T) {
	t.Parallel()
	e := testEngine(t)
	for range 1000 {
		if _, err := e.New(leaseConfig(1)); err != nil {
			t.Fatal(err)
		}
	}
	machine, err := e.New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"writer_id": "` + strings.Repeat("x", 60_000) + `", "expire_s": 60, "written_at": "2026-01-02T03:04:05.000000+00:00"}`)
	now := core.Instant{Wall: 1767323045_000_000_000}
	ev := core.Event{Kind: core.EventAcquire, Wait: core.Forever}
	var before uint64
	for i := range 4000 {
		actions, err := machine.Step(now, ev)
		if err != nil {
			t.Fatal(err)
		}
		ev = core.Event{Kind: core.EventChanged}
		if actions[0].Kind == core.ActionGet {
			ev = core.Event{Kind: core.EventAnswer, Request: actions[0].Request, Outcome: core.OutcomeYes, Body: body}
		}
		if i == 10 {
			before = e.guest.Memory()
		}
	}
	if after := e.guest.Memory(); machine.String() != "waiting" && machine.String() != "observing" || after > before+16<<20 {
		t.Errorf("%s: %d bytes, before %d", machine, after, before)
	}
}

// budgetGuest is what the core may add to a reactor that holds Go's runtime alone.
// It was 350 KiB for lastwriter; strict and its six machines are as much again, and an
// invocation, which drives all of them, is 81. 96 are zeros that an engine starts the
// faster for, and that nobody stores: compressed, the guest is 7 % smaller with them.
const budgetGuest = 1060 << 10

func TestGuestSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bare.wasm")
	gen(t, "-bare", "-o", path)
	bare, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if more := len(module) - int(bare.Size()); more > budgetGuest {
		t.Errorf("the guest has %d bytes more than a bare reactor, the budget is %d", more, budgetGuest)
	} else {
		t.Logf("the guest has %d bytes more than a bare reactor of %d", more, bare.Size())
	}
}

// TestModuleIsFresh: the committed module is what its sources make.
func TestModuleIsFresh(t *testing.T) {
	t.Parallel()
	gen(t, "-check", "-dir", ".")
	published, err := os.ReadFile("mopslock.wasm.sha256")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(Module())
	if !strings.HasPrefix(string(published), hex.EncodeToString(sum[:])+" ") {
		t.Errorf("published is %s, ours has %x", published, sum)
	}
}

func gen(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "./internal/gen"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestNoCapabilities: what the module asks of its host is what Go's runtime
// cannot start without, and nothing of ours.
func TestNoCapabilities(t *testing.T) {
	for _, f := range testEngine(t).compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		switch name {
		case "args_get", "args_sizes_get", "environ_get", "environ_sizes_get", // empty
			"clock_time_get", "random_get", // always the same
			"sched_yield", "poll_oneoff", "proc_exit", "fd_write", // of a panic's text
			"fd_fdstat_get", "fd_fdstat_set_flags", "fd_prestat_get", "fd_prestat_dir_name": // nothing is open
		default:
			t.Errorf("the module imports %s of %s", name, from)
		}
	}
}

// TestHostileBytes: whatever comes in, the guest answers what the core answers
// natively, and goes on.
func TestHostileBytes(t *testing.T) {
	guest := testGuest(t)
	var native core.Registry
	cfg := leaseConfig(1)
	config := core.AppendConfig(nil, &cfg)
	compare(t, guest, &native, config, nil)
	for _, b := range corpora(t) {
		compare(t, guest, &native, b, b)
	}
}

// FuzzGuest is the same for bytes that nobody has thought of.
func FuzzGuest(f *testing.F) {
	for _, b := range corpora(f)[:100] {
		f.Add(b, b)
	}
	guest := testGuest(f)
	var native core.Registry
	cfg := leaseConfig(1)
	if _, _, err := guest.New(nil, core.AppendConfig(nil, &cfg)); err != nil {
		f.Fatal(err)
	}
	native.New(nil, core.AppendConfig(nil, &cfg))
	f.Fuzz(func(t *testing.T, config, input []byte) { compare(t, guest, &native, config, input) })
}

// compare makes machines of a config here and there, and gives an input to the
// new ones and to the first.
func compare(t *testing.T, guest *Guest, native *core.Registry, config, input []byte) {
	t.Helper()
	h, got, err := guest.New(nil, config)
	h2, want := native.New(nil, config)
	if err != nil || h != h2 || !bytes.Equal(got, want) {
		t.Fatalf("new %x: %v, handle %d, not %d, and\n%x, not\n%x", config, err, h, h2, got, want)
	}
	for _, handle := range []core.Handle{1, h, 1 << 40} {
		got, err := guest.Step(nil, handle, input)
		if want := native.Step(nil, handle, input); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("step %d %x: %v\n%x, not\n%x", handle, input, err, got, want)
		}
	}
	if h > 1 {
		if err := guest.Drop(h); err != nil {
			t.Fatal(err)
		}
		native.Drop(h)
	}
}

// TestLongestInput: around the longest message an event is the same to the guest
// as to the core, also where it grows out of its room.
func TestLongestInput(t *testing.T) {
	machine, err := testEngine(t).New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	var native core.Registry
	cfg := leaseConfig(1)
	h, _ := native.New(nil, core.AppendConfig(nil, &cfg))
	body := make([]byte, core.MaxMessage)
	for size := core.MaxMessage - 120; size <= core.MaxMessage; size++ {
		ev := core.Event{Kind: core.EventAnswer, Request: 9, Outcome: core.OutcomeYes, Body: body[:size]}
		_, got := machine.Step(core.Instant{}, ev)
		var want core.Answer
		if err := core.DecodeAnswer(native.Step(nil, h, core.AppendInput(nil, core.Instant{}, &ev)), new(core.AnswerBuffer), &want); err != nil {
			t.Fatal(err)
		}
		if got == nil || got.Error() != want.Err.Error() {
			t.Fatalf("a body of %d bytes: %v, want %v", size, got, want.Err)
		}
	}
}

// TestLive: what was dropped is not counted, nor what was never made.
func TestLive(t *testing.T) {
	e := testEngine(t)
	machine, err := e.New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.New(core.Config{Seed: [16]byte{1}}); err == nil {
		t.Fatal("made")
	}
	if e.guest.live != 1 {
		t.Errorf("%d live", e.guest.live)
	}
	e.Drop(machine)
	e.Drop(machine)
	if e.guest.live != 0 {
		t.Errorf("%d live", e.guest.live)
	}
}

// TestRefused: a config or a step that is refused.
func TestRefused(t *testing.T) {
	e := testEngine(t)
	if _, err := e.New(core.Config{}); !errors.Is(err, &core.Error{Code: core.ErrorConfig}) {
		t.Error(err)
	}
	unsayable := leaseConfig(1)
	unsayable.Renewal, unsayable.Name = 77, "\xff"
	_, want := core.New(unsayable)
	if _, err := e.New(unsayable); err == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
	machine, err := e.New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	long := core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Body: make([]byte, core.MaxMessage)}
	for code, ev := range map[core.ErrorCode]core.Event{
		core.ErrorEvent: {Kind: core.EventLeave}, core.ErrorRequest: {Kind: core.EventAnswer, Request: 9, Outcome: core.OutcomeNo},
		core.ErrorMessage: long,
	} {
		if _, err := machine.Step(core.Instant{}, ev); !errors.Is(err, &core.Error{Code: code}) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if machine.String() != "idle" || !machine.Idle() {
		t.Error(machine)
	}
	if _, err := machine.Step(core.Instant{}, core.Event{Kind: core.EventAcquire}); err != nil || machine.Idle() {
		t.Error(err, machine)
	}
}
