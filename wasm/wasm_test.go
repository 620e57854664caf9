package wasm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
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
		Machine: core.MachineLease,
		Terms:   core.Terms{Protocol: core.ProtocolLastWriter, Name: "nightly/report", TTL: core.TTL(time.Minute)}, Seed: [16]byte{seed, 1},
		Host: "host.example.org", PID: "4711", TID: 4711,
	}
}

// renewal is a lease and a host that does only what a renewal asks.
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

// TestMemoryFlat: a guest does not grow by doing the same work over and over. Renewals and
// reads of long records leave no garbage at all: nothing is collected meanwhile. A tenth as
// many steps that fail do make it grow, which shows that the test would see little garbage.
func TestMemoryFlat(t *testing.T) {
	const never = -1 << 60
	e := testEngine(t)
	flat := func(what string, rounds int, do func()) {
		t.Helper()
		before := e.guest.Memory()
		for range rounds {
			do()
		}
		if after := e.guest.Memory(); after != before {
			t.Errorf("%s: the guest had %d bytes before %d of them, and %d after", what, before, rounds, after)
		}
	}
	look := newLook(t, e)
	steps := newRenewal(t, made(t, e, 2))
	e.guest.garbage = never
	flat("renewals", 100_000, func() { steps.step(t) })
	flat("looks", 500, func() { look.step(t) }) // 30 MB
	before := e.guest.Memory()
	err := func(m core.Stepper) {
		if _, err := m.Step(core.Instant{}, core.Event{Kind: core.EventLeave}); err == nil {
			t.Fatal("a lease accepts leave")
		}
	}
	fresh := made(t, e, 3)
	for range 10_000 {
		err(fresh)
	}
	if e.guest.Memory() == before {
		t.Error("the test does not see garbage")
	}
	e.guest.garbage = 0
	churn := func() {
		m := made(t, e, 4)
		err(m)
		e.Drop(m)
	}
	for range 600 { // it is collected twice
		churn()
	}
	flat("machines that come and go and err", 3000, churn)
}

// TestRefusedConfigsAreCollected: a guest collects what refused configs leave, however long
// they are and however many machines live.
func TestRefusedConfigsAreCollected(t *testing.T) {
	e := testEngine(t)
	for range 500 {
		made(t, e, 1)
	}
	long := leaseConfig(1)
	long.Name = strings.Repeat("x", 90_000)
	before := e.guest.Memory()
	for range 500 { // 90 MB, with the errors about them
		if _, err := e.New(long); err == nil {
			t.Fatal("made")
		}
	}
	if after := e.guest.Memory(); after > before+16<<20 {
		t.Errorf("%d bytes, before %d", after, before)
	}
}

func made(t *testing.T, e *Engine, seed byte) core.Stepper {
	t.Helper()
	m, err := e.New(leaseConfig(seed))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newLook is a waiter that reads the long record of another holder again and again.
func newLook(t *testing.T, e *Engine) *renewal {
	r := &renewal{
		machine: made(t, e, 1), now: core.Instant{Mono: 1, Wall: 1767323045_000_000_000},
		event: core.Event{Kind: core.EventAcquire, Wait: core.Forever},
		body:  []byte(`{"writer_id": "` + strings.Repeat("x", 60_000) + `", "expire_s": 3600, "written_at": "2026-01-02T03:04:05.000000+00:00"}`),
	}
	for range 10 {
		r.step(t)
	}
	return r
}

// TestGuestSize: the module is small enough to be embedded. No code is bent for its size.
func TestGuestSize(t *testing.T) {
	const most = 4 << 20
	if len(module) > most {
		t.Errorf("the guest has %d bytes, the budget is %d", len(module), most)
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

// TestNoCapabilities: the module imports what Go's runtime cannot start without, and
// nothing of ours.
func TestNoCapabilities(t *testing.T) {
	for _, f := range testEngine(t).compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		switch name {
		case "args_get", "args_sizes_get", "environ_get", "environ_sizes_get", // empty
			"clock_time_get", "random_get", // always the same
			"sched_yield", "poll_oneoff", "proc_exit", "fd_write", // for a panic's text
			"fd_fdstat_get", "fd_fdstat_set_flags", "fd_prestat_get", "fd_prestat_dir_name": // nothing is open
		default:
			t.Errorf("the module imports %s of %s", name, from)
		}
	}
}

// TestHostileBytes: to any bytes the guest answers what the core answers natively,
// and goes on.
func TestHostileBytes(t *testing.T) {
	guest := testGuest(t)
	var native machines.Registry
	cfg := leaseConfig(1)
	config := core.AppendConfig(nil, &cfg)
	compare(t, guest, &native, config, nil)
	for _, b := range corpora(t) {
		compare(t, guest, &native, b, b)
	}
}

// FuzzGuest is the same for bytes that a fuzzer makes.
func FuzzGuest(f *testing.F) {
	for _, b := range corpora(f)[:100] {
		f.Add(b, b)
	}
	guest := testGuest(f)
	var native machines.Registry
	cfg := leaseConfig(1)
	if _, _, err := guest.New(nil, core.AppendConfig(nil, &cfg)); err != nil {
		f.Fatal(err)
	}
	native.New(nil, core.AppendConfig(nil, &cfg))
	f.Fuzz(func(t *testing.T, config, input []byte) { compare(t, guest, &native, config, input) })
}

// compare makes machines of a config here and there, and gives an input to the
// new ones and to the first.
func compare(t *testing.T, guest *Guest, native *machines.Registry, config, input []byte) {
	t.Helper()
	h, got, err := guest.New(nil, config)
	h2, want := native.New(nil, config)
	if err != nil || h != h2 || !bytes.Equal(got, want) {
		t.Fatalf("new %x: %v, handle %d, not %d, and\n%x, not\n%x", config, err, h, h2, got, want)
	}
	for _, handle := range []machines.Handle{1, h, 1 << 40} {
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

// TestLongestInput: to an event that is about as long as the longest message, the guest
// answers as the core does, also where the event grows out of its room.
func TestLongestInput(t *testing.T) {
	machine, err := testEngine(t).New(leaseConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	var native machines.Registry
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

// TestRefused: a config or a step is refused with the core's own error, and machines that
// were never made or were dropped are not counted.
func TestRefused(t *testing.T) {
	e := testEngine(t)
	unsayable := leaseConfig(1)
	unsayable.Renewal, unsayable.Name = 77, "\xff"
	for _, cfg := range []core.Config{{}, {Seed: [16]byte{1}}, unsayable} {
		_, want := machines.New(cfg)
		if _, err := e.New(cfg); !errors.Is(err, &core.Error{Code: core.ErrorConfig}) || err.Error() != want.Error() {
			t.Errorf("%v, want %v", err, want)
		}
	}
	machine := made(t, e, 1)
	for code, ev := range map[core.ErrorCode]core.Event{
		core.ErrorEvent: {Kind: core.EventLeave}, core.ErrorRequest: {Kind: core.EventAnswer, Request: 9, Outcome: core.OutcomeNo},
		core.ErrorMessage: {Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Body: make([]byte, core.MaxMessage)},
	} {
		if _, err := machine.Step(core.Instant{}, ev); !errors.Is(err, &core.Error{Code: code}) || machine.String() != "idle" || !machine.Idle() {
			t.Errorf("%s: %v, %s", code, err, machine)
		}
	}
	if _, err := machine.Step(core.Instant{}, core.Event{Kind: core.EventAcquire}); err != nil || machine.Idle() || e.guest.live != 1 {
		t.Error(err, machine, e.guest.live)
	}
	for range 2 {
		if e.Drop(machine); e.guest.live != 0 {
			t.Errorf("%d live", e.guest.live)
		}
	}
}
