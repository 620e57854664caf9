//go:build linux || darwin

package stress

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	hoststore "github.com/mopslock/mopslock/host/store"
)

const (
	stormers = 8
	// leastStorm is how long a storm is when runs are as long as `make stress` has them
	// by itself; on servers, where turns are slow, in every long run.
	leastStorm = time.Minute
	usualRun   = 30 * time.Second
	// leastSlots are there before the storm begins.
	leastSlots = 8
)

// TestStorm: eight processes take one strict lease and increment one guarded
// counter under its token, while they are stopped, continued and killed at
// random. A stopped one often goes on in the middle of a write that it began
// under a lease that another holds by then:
//
//	A, token 5:  read 7 ── SIGSTOP ═════════════════════ SIGCONT ── create 8: exists ── stale
//	B, token 6:               TTL … held ── 8 ── 9 ── …
//
// No two of them hold at once, no update is lost or counted twice, tokens never go
// back along the slots, and what all of them saw together is linearizable. How they
// fare on real servers is TestServersContend.
func TestStorm(t *testing.T) {
	w := newWeather(t, here(store(t)), climate{ttl: time.Second, calm: 150 * time.Millisecond})
	w.blow(t)
	if s := w.judge(t); !t.Failed() && (s.increments < leastSlots/2 || s.tokens < 2) {
		t.Errorf("a calm day: %+v", s)
	}
}

// climate is what a storm is like.
type climate struct {
	ttl  time.Duration
	calm time.Duration // at most, from one gust to the next
	rest time.Duration // at most, for a process after its turn; 0 is none
	fair bool          // it goes on until everybody has had a turn
	// aimed: one gust in so many stops who holds, for longer than a TTL; 0 is none.
	aimed int
}

// weather is one storm.
type weather struct {
	place
	climate
	logs string
	end  time.Duration // CLOCK_MONOTONIC
	over chan struct{} // closed when it is

	mu      sync.Mutex
	gusts   int
	workers [stormers]*process
	// journals are the files that they write in this life.
	journals [stormers]string
	stopped  [stormers]bool
	kills    int
	stops    int

	store hoststore.Store
	slots map[uint64]stormSlot // all that there ever were
	holds []tenure
}

func newWeather(t *testing.T, p place, c climate) *weather {
	d, long := duration(t)
	if d >= usualRun || long && c.ttl == serverTTL {
		d = max(d, leastStorm)
	}
	s, err := hoststore.Open(t.Context(), p.direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &weather{
		place: p, climate: c, logs: t.TempDir(), end: monotonic() + d - 500*time.Millisecond,
		over: make(chan struct{}), store: s, slots: map[uint64]stormSlot{},
	}
}

// blow runs the storm to its end, and reads all slots meanwhile, before they
// are collected. It begins when there are some: else a first holder that is
// stopped at once could make it a calm day.
func (w *weather) blow(t *testing.T) {
	for i := range w.workers {
		w.start(t, i)
	}
	for monotonic() < w.end && len(w.slots) < leastSlots {
		w.audit(t)
		time.Sleep(20 * time.Millisecond)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for !closed(w.over) {
			w.pause(rand.N(w.calm)) //nolint:gosec // no secret
			w.gust(t, &all)
		}
	})
	for monotonic() < w.end || w.fair && monotonic() < w.end+patience && w.somebodyWaits(t) {
		w.audit(t)
		time.Sleep(time.Second / 2)
	}
	if err := os.WriteFile(w.overFile(), nil, 0o600); err != nil {
		t.Error(err)
	}
	close(w.over)
	all.Wait()
	for i, p := range w.workers {
		if status := p.status(t, 30*time.Second); status != 0 {
			t.Errorf("process %d ended with %d: %s", i, status, p.stderr.String())
		}
	}
	w.audit(t)
}

func (w *weather) start(t *testing.T, i int) {
	log := filepath.Join(w.logs, fmt.Sprintf("%d-%d", i, w.kills))
	p, err := launch(t, w.env, self, helperMark, "storm", w.url, log,
		w.ttl.String(), w.rest.String(), w.overFile())
	if err != nil {
		t.Error(err)
		return
	}
	w.workers[i], w.journals[i] = p, log
}

// gust kills one process and starts another in its place, or stops one for up
// to two TTLs.
func (w *weather) gust(t *testing.T, all *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, kill, length := rand.IntN(stormers), rand.IntN(8) == 0, rand.N(2*w.ttl)
	if w.gusts++; w.aimed > 0 && w.gusts%w.aimed == 0 {
		if holder, found := w.holder(); found {
			i, kill, length = holder, false, 2*w.ttl
		}
	}
	if w.stopped[i] || closed(w.over) {
		return
	}
	p := w.workers[i]
	if kill {
		w.kills++
		_ = p.cmd.Process.Kill()
		<-p.done
		w.start(t, i)
		return
	}
	w.stops++
	w.stopped[i] = true
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	all.Go(func() {
		w.pause(length)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stopped[i] = false
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	})
}

// overFile is there when the storm is over.
func (w *weather) overFile() string { return w.logs + ".over" }

// pause ends with the storm.
func (w *weather) pause(d time.Duration) {
	select {
	case <-w.over:
	case <-time.After(d):
	}
}

// stormSlot is the head of a slot, and the body behind it.
type stormSlot struct {
	Slot, Token, Written uint64
	Holder, Nonce, After string
	body                 string // "VALUE ID"
}

// audit reads every slot that was not read before: they never change.
func (w *weather) audit(t *testing.T) {
	prefix, after := stormCounter+"/_fence/", ""
	for failed := 0; failed < 100; {
		page, more, err := w.store.List(t.Context(), prefix, after, 0)
		if err != nil {
			failed++ // a bad day's server
			continue
		}
		for _, info := range page {
			w.auditSlot(t, info.Key, strings.TrimPrefix(info.Key, prefix))
			after = info.Key
		}
		if !more {
			return
		}
	}
	t.Error("the slots cannot be listed")
}

func (w *weather) auditSlot(t *testing.T, key, name string) {
	inverse, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		t.Errorf("%s is not a slot", key)
		return
	}
	number := math.MaxUint64 - inverse
	if _, known := w.slots[number]; known {
		return
	}
	for range 100 {
		object, err := w.store.Get(context.Background(), key)
		if err != nil {
			continue
		}
		line, body, _ := bytes.Cut(object.Body, []byte("\n"))
		slot := stormSlot{body: string(body)}
		if err := json.Unmarshal(line, &slot); err != nil || slot.Slot != number {
			t.Errorf("%s: %q: %v", key, object.Body, err)
		}
		w.slots[number] = slot
		return
	}
	t.Errorf("%s cannot be read", key)
}

// tally is what a storm came to.
type tally struct {
	increments, stale, unknown, open, tokens, lost, tenures int

	readBack int // increments of unknown outcome that are in a slot
	value    int // of the counter, in the end
	turns    [stormers]int
}

func (w *weather) judge(t *testing.T) (s tally) {
	t.Helper()
	applied := w.judgeSlots(t, &s)
	ops := w.history(t, applied, &s)
	for id := range applied {
		t.Errorf("nobody has written %q, and it is in a slot", id)
	}
	if s.value != s.increments+s.readBack {
		t.Errorf("the counter is %d after %d increments and %d more that were read back", s.value, s.increments, s.readBack)
	}
	w.judgeHolds(t, &s)
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(stormModel, ops, time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(os.TempDir(), "mopslock-storm.html")
		t.Errorf("the history of %d operations: %v (drawn in %s: %v)", len(ops), result, file, porcupine.VisualizePath(stormModel, info, file))
	}
	figures(t, "%d increments in %d slots by %d tenures; refused as stale %d, unknown %d, left open by a kill %d, of which read back %d; lost leases %d, stops %d, kills %d; porcupine in %v: %v",
		s.increments, len(w.slots), s.tenures, s.stale, s.unknown, s.open, s.readBack, s.lost, w.stops, w.kills, time.Since(began).Round(time.Millisecond), result)
	return s
}

// judgeSlots looks at what is in the store: each slot follows the one before,
// no token goes back, each increment counts one and is there once. It returns
// the slots by the id of who wrote them; a raise's is its token.
func (w *weather) judgeSlots(t *testing.T, s *tally) map[string]stormSlot {
	applied := map[string]stormSlot{}
	var last stormSlot
	lastValue := 0
	for _, number := range slices.Sorted(maps.Keys(w.slots)) {
		slot := w.slots[number]
		text, id, _ := strings.Cut(slot.body, " ")
		value := lastValue
		if slot.Written == slot.Slot {
			value, _ = strconv.Atoi(text)
			if value != lastValue+1 {
				t.Errorf("slot %d counts %d after %d", number, value, lastValue)
			}
		} else {
			id = fmt.Sprintf("raise-%d", slot.Token)
			if slot.body != last.body {
				t.Errorf("slot %d raises %q to %q", number, last.body, slot.body)
			}
		}
		if number != last.Slot+1 || slot.After != last.Nonce {
			t.Errorf("slot %d comes after %d, and says it follows %q, not %q", number, last.Slot, slot.After, last.Nonce)
		}
		if slot.Token < last.Token || slot.Token == last.Token && slot.Holder != last.Holder {
			t.Errorf("slot %d has token %d of %s after %d of %s", number, slot.Token, slot.Holder, last.Token, last.Holder)
		}
		if slot.Token > last.Token {
			s.tokens++
		}
		if _, twice := applied[id]; twice {
			t.Errorf("%s is in two slots", id)
		}
		applied[id] = slot
		last, lastValue = slot, value
	}
	s.value = lastValue
	return applied
}

// stormCall is one call in a journal.
type stormCall struct {
	what  string // increment, read, raise
	token uint64
}

type stormBack struct {
	stale bool
	value int
}

// history makes porcupine's operations of the journals. A call of unknown
// outcome, or whose process was killed in it, counts from its beginning to the
// end of time if a slot shows that it was applied, and not at all otherwise.
func (w *weather) history(t *testing.T, applied map[string]stormSlot, s *tally) (ops []porcupine.Operation) {
	files, err := filepath.Glob(filepath.Join(w.logs, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for client, file := range files {
		j := journal{t: t, tally: s, applied: applied, client: client, worker: workerOf(file), open: map[string]porcupine.Operation{}}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4); len(words) == 4 && strings.HasSuffix(line, "\n") {
				j.line(words[0], words[1], words[2], words[3])
			}
		}
		s.open += len(j.open)
		for id := range j.open {
			j.unsettled(id)
		}
		ops = append(ops, j.ops...)
		w.holds = append(w.holds, j.holds...)
	}
	return ops
}

// journal is what one process wrote down.
type journal struct {
	t       *testing.T
	tally   *tally
	applied map[string]stormSlot
	client  int
	worker  int
	open    map[string]porcupine.Operation
	ops     []porcupine.Operation
	holds   []tenure
}

func (j *journal) line(what, id, at, text string) {
	stamp, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		j.t.Errorf("a journal says %q at %q", what, at)
	}
	number, _ := strconv.ParseUint(text, 10, 64)
	switch what {
	case "increment", "read", "raise":
		j.open[id] = porcupine.Operation{ClientId: j.client, Input: stormCall{what, number}, Call: stamp}
		return
	case "held":
		j.tally.tenures++
		j.tally.turns[j.worker]++
		j.holds = append(j.holds, tenure{number, interval{time.Duration(stamp), time.Duration(stamp)}})
		return
	case "sure":
		j.holds[len(j.holds)-1].end = time.Duration(stamp)
		return
	case "lost":
		j.tally.lost++
		return
	case "refused", "unreleased", "released":
		return
	}
	op, called := j.open[id]
	if !called {
		j.t.Errorf("%s of %s, which was not called", what, id)
		return
	}
	op.Return = stamp
	key, slot, inSlot := j.find(id, op)
	switch what {
	case "ok":
		op.Output = stormBack{value: int(number)} //nolint:gosec // it is small
		if call := op.Input.(stormCall); call.what == "increment" && (!inSlot || slot.Token != call.token) {
			j.t.Errorf("%s was counted as %d under %d, and its slot is %+v", id, number, call.token, slot)
		}
		if op.Input.(stormCall).what == "increment" {
			j.tally.increments++
		}
		j.ops = append(j.ops, op)
	case "unknown":
		j.tally.unknown++
		j.unsettled(id)
		return
	case "stale":
		j.tally.stale++
		op.Output = stormBack{stale: true}
		j.ops = append(j.ops, op)
		fallthrough
	case "failed":
		if inSlot {
			j.t.Errorf("%s: %s %s, and it is in slot %d", id, what, text, slot.Slot)
		}
	default:
		j.t.Errorf("a journal says %q", what)
	}
	delete(j.open, id)
	delete(j.applied, key)
}

// find returns the slot that a call has written, if it has. A tenure raises
// once.
func (j *journal) find(id string, op porcupine.Operation) (key string, slot stormSlot, ok bool) {
	key = id
	if call := op.Input.(stormCall); call.what == "raise" {
		key = fmt.Sprintf("raise-%d", call.token)
	}
	slot, ok = j.applied[key]
	return key, slot, ok
}

func (j *journal) unsettled(id string) {
	op := j.open[id]
	key, slot, inSlot := j.find(id, op)
	delete(j.open, id)
	delete(j.applied, key)
	if !inSlot {
		return
	}
	if op.Input.(stormCall).what == "increment" {
		j.tally.readBack++
	}
	text, _, _ := strings.Cut(slot.body, " ")
	value, _ := strconv.Atoi(text)
	op.Return, op.Output = math.MaxInt64, stormBack{value: value}
	j.ops = append(j.ops, op)
}

type stormState struct {
	token uint64
	value int
}

// stormModel is a counter that only the newest token may change.
var stormModel = porcupine.Model{
	Init: func() any { return stormState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(stormState), input.(stormCall), output.(stormBack)
		switch {
		case in.what == "read":
			return out.value == s.value, s
		case out.stale:
			return in.token < s.token, s
		case in.what == "raise":
			return in.token >= s.token && out.value == s.value, stormState{in.token, s.value}
		}
		return in.token >= s.token && out.value == s.value+1, stormState{in.token, s.value + 1}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}
