//go:build linux

package stress

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	hoststore "github.com/mopslock/mopslock/host/store"
)

// slot is the head of a slot of the guarded counter, and the body behind it.
type slot struct {
	Slot, Token, Written uint64
	Holder, Nonce, After string
	body                 string // "VALUE ID"
}

// audit has every slot that was ever written: it reads slots before they are collected.
type audit struct {
	store hoststore.Store
	slots map[uint64]slot
}

func (s *storm) audit(t *testing.T) *audit {
	opened, err := hoststore.Open(t.Context(), s.direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return &audit{opened, map[uint64]slot{}}
}

// look reads every slot that it has not read before: slots never change. If the server is
// away, it asks again.
func (a *audit) look(t *testing.T) {
	prefix := stormCounter + "/_fence/"
	for after, more := "", true; more; {
		var page []hoststore.Info
		eventually(t, "the slots are listed", func() (ok bool) {
			var err error
			page, more, err = a.store.List(t.Context(), prefix, after, 0)
			return err == nil
		})
		for _, info := range page {
			after = info.Key
			inverse, err := strconv.ParseUint(strings.TrimPrefix(info.Key, prefix), 16, 64)
			if _, known := a.slots[math.MaxUint64-inverse]; known || err != nil {
				continue
			}
			var object hoststore.Object
			eventually(t, "a slot is read", func() bool {
				object, err = a.store.Get(t.Context(), info.Key)
				return err == nil
			})
			head, body, _ := bytes.Cut(object.Body, []byte("\n"))
			read := slot{body: string(body)}
			if err := json.Unmarshal(head, &read); err != nil || read.Slot != math.MaxUint64-inverse {
				t.Errorf("%s: %q: %v", info.Key, object.Body, err)
			}
			a.slots[read.Slot] = read
		}
	}
}

// judge compares what the ledger says with what is in the store.
func (s *storm) judge(t *testing.T, slots map[uint64]slot) {
	s.judgeBeliefs(t)
	s.judgeStatuses(t)
	written := judgeSlots(t, slots)
	ops := s.history(t, written)
	for id := range written {
		t.Errorf("a slot has %q, which no process has written", id)
	}
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(counter, ops, bound)
	if result != porcupine.Ok {
		file := filepath.Join(os.TempDir(), "mopslock-storm.html")
		t.Errorf("the history of %d operations: %v (drawn in %s: %v)", len(ops), result, file, porcupine.VisualizePath(counter, info, file))
	}
	figures(t, "%d slots, %d operations; porcupine in %v: %v", len(slots), len(ops), time.Since(began).Round(time.Millisecond), result)
}

// judgeBeliefs: no more tenures than the limit believe at once that they hold, and each tenure of
// a lease has a greater token than the one before. A tenure believes from the first point of the
// ledger at which it was sure until the last. Two tenures that share only one point need not have
// believed at the same time.
func (s *storm) judgeBeliefs(t *testing.T) {
	type tenure struct {
		token, first, last int64
	}
	tenures, pids := map[string]*tenure{}, map[int]bool{}
	for _, e := range s.climate.Ledger.read(t, "sure") {
		id, token, at := e.words[0], number(t, e.words[1]), number(t, e.words[2])
		if tenures[id] == nil {
			tenures[id] = &tenure{token, at, at}
		}
		tenures[id].last, pids[e.pid] = at, true
	}
	all := slices.SortedFunc(maps.Values(tenures), func(a, b *tenure) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.token, b.token)) })
	most, limit := 0, max(1, s.climate.View.Limit())
	for i, now := range all {
		inside := 1
		for _, before := range all[:i] {
			if before.last > now.first {
				inside++
			}
		}
		if most = max(most, inside); inside > limit {
			t.Errorf("%d believed at once, at most %d may: %+v", inside, limit, *now)
		}
		if limit == 1 && i > 0 && now.token <= all[i-1].token && s.succeeded > 0 {
			t.Errorf("token %d was held after token %d", now.token, all[i-1].token)
		}
	}
	if limit == 1 && s.succeeded > 0 && int64(s.succeeded) <= all[len(all)-1].token { //nolint:gosec // they are few
		t.Errorf("the token after the storm is %d, and one in it was %d", s.succeeded, all[len(all)-1].token)
	}
	figures(t, "%d tenures of %d processes, %d lost; at most %d at once of %d", len(all), len(pids), len(s.climate.Ledger.read(t, "lost")), most, limit)
}

// late is how long after its wait a command that has not acquired may end. It gives a request up
// after 10 s; on two processors under eight storms at once it took 26 s.
const late = time.Minute

// judgeStatuses: the command ends by a status that its page gives for what befell it. If it has
// not acquired, it ends soon after its wait is over.
func (s *storm) judgeStatuses(t *testing.T) {
	statuses, latest := map[int64]int{}, time.Duration(0)
	for _, e := range s.climate.Ledger.read(t, "status") {
		status, after := number(t, e.words[0]), time.Duration(number(t, e.words[1]))*time.Millisecond
		statuses[status]++
		switch status {
		case unreachable, notAcquired:
			if latest = max(latest, after); after > late {
				t.Errorf("the command ended with %d %v after its wait: %s", status, after, e.words[2])
			}
		case 0, leaseLost, 128 + int64(syscall.SIGTERM):
		default:
			t.Errorf("the command ended with %d: %s", status, e.words[2])
		}
	}
	if len(statuses) > 0 {
		figures(t, "the command's statuses: %v; at most %v after its wait", statuses, latest)
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("the ledger says %q", text)
	}
	return n
}

// judgeSlots looks at what is in the store: each slot follows the one before,
// no token goes back, each increment counts one and is there once. It returns
// the slots by the id of the call that wrote them; a raise's id is its token.
func judgeSlots(t *testing.T, slots map[uint64]slot) map[string]slot {
	written := map[string]slot{}
	var last slot
	for _, n := range slices.Sorted(maps.Keys(slots)) {
		now := slots[n]
		_, id, _ := strings.Cut(now.body, " ")
		switch {
		case now.Written != now.Slot:
			if id = fmt.Sprint("raise-", now.Token); now.body != last.body {
				t.Errorf("slot %d raises %q to %q", n, last.body, now.body)
			}
		case counted([]byte(now.body)) != counted([]byte(last.body))+1:
			t.Errorf("slot %d counts %q after %q", n, now.body, last.body)
		}
		if n != last.Slot+1 || now.After != last.Nonce {
			t.Errorf("slot %d comes after %d, and says it follows %q, not %q", n, last.Slot, now.After, last.Nonce)
		}
		if now.Token < last.Token || now.Token == last.Token && now.Holder != last.Holder {
			t.Errorf("slot %d has token %d of %s after %d of %s", n, now.Token, now.Holder, last.Token, last.Holder)
		}
		if _, twice := written[id]; twice {
			t.Errorf("%s is in two slots", id)
		}
		written[id] = now
		last = now
	}
	return written
}

// input is a call, and output its answer.
type input struct {
	what  string // increment, read, raise
	token int64
}

type output struct {
	stale bool
	value int64
}

// history makes porcupine's operations from the ledger, and deletes from written the slots of
// the calls that it finds there. A call whose outcome is unknown, or whose process was killed
// during it, lasts to the end of time if a slot shows that it was applied; otherwise it is left out.
func (s *storm) history(t *testing.T, written map[string]slot) (ops []porcupine.Operation) {
	backs, outcomes := map[string]entry{}, map[string]int{}
	for _, e := range s.climate.Ledger.read(t, "back") {
		backs[e.words[0]] = e
	}
	for _, called := range s.climate.Ledger.read(t, "call") {
		id, in := called.words[0], input{called.words[1], number(t, called.words[2])}
		op := porcupine.Operation{ClientId: called.pid, Input: in, Call: called.at, Return: math.MaxInt64}
		key := id
		if in.what == "raise" {
			key = fmt.Sprint("raise-", in.token)
		}
		slot, applied := written[key]
		delete(written, key)
		outcome := "killed"
		back, answered := backs[id]
		if answered {
			outcome = back.words[1]
		}
		outcomes[outcome]++
		switch outcome {
		case "ok":
			op.Return, op.Output = back.at, output{value: number(t, back.words[2])}
			if in.what == "increment" && (!applied || int64(slot.Token) != in.token) { //nolint:gosec // they are few
				t.Errorf("%+v was counted, and its slot is %+v", called, slot)
			}
		case "stale":
			op.Return, op.Output = back.at, output{stale: true}
			fallthrough
		case "failed":
			if applied {
				t.Errorf("%+v: %+v, and it is in slot %+v", called, back, slot)
			}
		default:
			op.Output = output{value: int64(counted([]byte(slot.body)))}
		}
		if applied || answered && outcome != "unknown" && outcome != "failed" {
			ops = append(ops, op)
		}
	}
	figures(t, "calls: %v", outcomes)
	return ops
}

type state struct{ token, value int64 }

// counter is a counter that only the newest token may change.
var counter = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, called, back any) (bool, any) {
		s, in, out := before.(state), called.(input), back.(output)
		switch {
		case in.what == "read":
			return out.value == s.value, s
		case out.stale:
			return in.token < s.token, s
		case in.what == "raise":
			return in.token >= s.token && out.value == s.value, state{in.token, s.value}
		}
		return in.token >= s.token && out.value == s.value+1, state{in.token, s.value + 1}
	},
	DescribeOperation: func(called, back any) string { return fmt.Sprintf("%+v: %+v", called, back) },
}
