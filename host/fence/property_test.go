package fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/mopslock/mopslock/core"
)

// TestProperties: any sequence of reads, writes, updates and raises under any
// tokens, with any answers lost, against an oracle that is a body and a token.
// What is unknown leaves the oracle two possibilities, which the next read
// settles.
//
// rapid stops before a day is over, and here a day is virtual and soon over.
func TestProperties(t *testing.T) {
	for day := range 3 {
		t.Run(strconv.Itoa(day), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hidden := struct{ rapid.TB }{t} // a *testing.T is asked for its deadline, which a bubble has not
				rapid.Check(hidden, func(rt *rapid.T) { checkProperties(t, rt) })
			})
		})
	}
}

func checkProperties(t *testing.T, rt *rapid.T) {
	s := newStore(t)
	o := open(rt, s)
	m := &oracle{store: s, object: o}
	rt.Repeat(map[string]func(*rapid.T){
		"write":  m.write,
		"update": m.update,
		"raise":  m.raise,
		"read":   m.read,
		"wait":   func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 9).Draw(rt, "s")) * time.Second) },
	})
	s.on(nil)
	s.landing.Wait()
	m.read(rt)
	m.chain(rt)
}

// oracle is what the object must be.
type oracle struct {
	store  *fakeStore
	object *Object

	token uint64
	body  string // "" is nobody has written
	// maybe is what the object is instead, if the last unknown write was or will
	// be applied; its nonce tells.
	maybe *possibility
}

type possibility struct {
	nonce string
	token uint64
	body  string
}

func (m *oracle) faults(rt *rapid.T) {
	plan := rapid.SliceOfN(rapid.SampledFrom([]fault{
		{},
		{},
		{lost: true},
		{refused: core.ClassUnreachable},
		{late: time.Second},
		{late: time.Hour},
		{slow: 20 * time.Second},
		{refused: core.ClassFull},
	}), 0, 3).Draw(rt, "faults")
	m.store.on(func(string) fault {
		if len(plan) == 0 {
			return fault{}
		}
		f := plan[0]
		plan = plan[1:]
		return f
	})
}

// settle asks the object, without faults, whether an unknown write is in it.
// One that may still land stays possible until another slot is in its place:
// a raise of the newest token is that.
func (m *oracle) settle(rt *rapid.T) {
	if m.maybe == nil {
		return
	}
	read, err := m.object.Read(context.Background())
	ok(rt, err)
	if read.Nonce == m.maybe.nonce {
		m.token, m.body, m.maybe = m.maybe.token, m.maybe.body, nil
	}
}

// judge checks what a call returned, and takes over what it must have done.
func (m *oracle) judge(rt *rapid.T, t Tenure, got Slot, err error, body func(old string) string) {
	m.settle(rt)
	unknown, isUnknown := errors.AsType[*UnknownError](err)
	switch {
	case isUnknown:
		m.maybe = &possibility{unknown.Nonce, t.Token, body(m.body)}
		m.settle(rt)
	case errors.Is(err, ErrStale):
		if t.Token >= m.token {
			rt.Fatalf("token %d is called stale, the newest is %d", t.Token, m.token)
		}
	case err != nil:
		rt.Fatal(err)
	case t.Token < m.token:
		rt.Fatalf("token %d has written over %d", t.Token, m.token)
	default:
		m.token, m.body, m.maybe = t.Token, body(m.body), nil
		same(rt, "returned body", string(got.Body), m.body)
	}
}

func (m *oracle) tenure(rt *rapid.T) Tenure { return tenure(rapid.Uint64Range(1, 5).Draw(rt, "token")) }

func (m *oracle) write(rt *rapid.T) {
	t, body := m.tenure(rt), strconv.Itoa(rapid.IntRange(1, 1000).Draw(rt, "body"))
	m.land(rt)
	m.faults(rt)
	got, err := m.object.Write(context.Background(), t, []byte(body))
	m.judge(rt, t, got, err, func(string) string { return body })
}

func (m *oracle) update(rt *rapid.T) {
	t := m.tenure(rt)
	m.land(rt)
	m.faults(rt)
	got, err := m.object.Update(context.Background(), t, increment)
	m.judge(rt, t, got, err, func(old string) string {
		n, _ := strconv.Atoi(old)
		return strconv.Itoa(n + 1)
	})
}

func (m *oracle) raise(rt *rapid.T) {
	t := m.tenure(rt)
	m.land(rt)
	m.faults(rt)
	got, err := m.object.Raise(context.Background(), t)
	m.judge(rt, t, got, err, func(old string) string { return old })
}

// land lets what is unknown land, or not, before the next call: that one must
// not be judged by what happened in the middle of it.
func (m *oracle) land(rt *rapid.T) {
	if m.maybe == nil {
		return
	}
	m.store.landing.Wait()
	m.settle(rt)
	m.maybe = nil
}

func (m *oracle) read(rt *rapid.T) {
	read, err := m.object.Read(context.Background())
	ok(rt, err)
	if m.maybe != nil && read.Nonce == m.maybe.nonce {
		m.token, m.body, m.maybe = m.maybe.token, m.maybe.body, nil
	}
	same(rt, "token", read.Token, m.token)
	same(rt, "body", string(read.Body), m.body)
}

// chain reads all slots: tokens never go back, and each names the one before.
func (m *oracle) chain(rt *rapid.T) {
	newest, err := m.object.Read(context.Background())
	ok(rt, err)
	for newest.Number > 1 {
		before, err := m.object.get(context.Background(), m.object.slotKey(newest.Number-1), newest.Number-1)
		if err != nil {
			break // collected
		}
		if before.Token > newest.Token || before.Nonce != newest.After {
			rt.Fatalf("slot %+v follows %+v", newest, before)
		}
		newest = before
	}
}

// An operation of a history: an increment under a token, or a read (token 0).
type operation struct {
	token uint64
	nonce string // of what came of it
}

type outcome struct {
	stale bool
	value int
}

type counter struct {
	token uint64
	value int
}

// counterModel is a counter that only the newest token may increment.
var counterModel = porcupine.Model{
	Init: func() any { return counter{} },
	Step: func(state, input, output any) (bool, any) {
		c, in, out := state.(counter), input.(operation), output.(outcome)
		switch {
		case in.token == 0:
			return out.value == c.value, c
		case out.stale:
			return in.token < c.token, c
		}
		return in.token >= c.token && out.value == c.value+1, counter{in.token, c.value + 1}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// TestHistory: goroutines of several tenures, some of them over long ago,
// increment and read while answers are lost; what they saw is linearizable.
func TestHistory(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var ops []porcupine.Operation
			synctest.Test(t, func(t *testing.T) { ops = history(t, seed) })
			if result := porcupine.CheckOperationsTimeout(counterModel, ops, time.Minute); result != porcupine.Ok {
				t.Errorf("history of %d operations: %v", len(ops), result)
			}
		})
	}
}

func history(t *testing.T, seed uint64) []porcupine.Operation {
	const clients, each = 6, 30
	s := newStore(t)
	chance := rand.New(rand.NewPCG(seed, 1))
	s.on(func(string) fault { // under the store's mutex
		switch chance.IntN(8) {
		case 0:
			return fault{lost: true}
		case 1:
			return fault{refused: core.ClassUnreachable}
		case 2:
			return fault{late: time.Duration(chance.IntN(1000)) * time.Millisecond}
		case 3:
			return fault{slow: time.Duration(chance.IntN(1000)) * time.Millisecond}
		}
		return fault{}
	})
	var (
		mu  sync.Mutex
		ops []porcupine.Operation
		all sync.WaitGroup
	)
	began := time.Now()
	for client := range clients {
		all.Go(func() {
			o, chance := open(t, s), rand.New(rand.NewPCG(seed, uint64(client+2)))
			for i := range each {
				time.Sleep(time.Duration(chance.IntN(300)) * time.Millisecond)
				op := porcupine.Operation{ClientId: client, Call: int64(time.Since(began))}
				var known bool
				op.Input, op.Output, known = step(t, o, chance, uint64(1+i/10))
				op.Return = int64(time.Since(began))
				if !known {
					t.Error("unknown: give it more tries")
				}
				mu.Lock()
				ops = append(ops, op)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.on(nil)
	s.landing.Wait()
	return ops
}

// step is one operation of one client, whose tenure is as new as the client's
// progress: the slow are the stale.
func step(t *testing.T, o *Object, chance *rand.Rand, token uint64) (in operation, out outcome, known bool) {
	var slot Slot
	var err error
	if chance.IntN(4) == 0 {
		slot, err = o.Read(t.Context())
	} else {
		in.token = token
		slot, err = o.Update(t.Context(), tenure(token), increment)
	}
	switch {
	case errors.Is(err, ErrStale):
		out.stale = true
	case errors.Is(err, ErrUnknown):
		return in, out, false
	default:
		ok(t, err)
	}
	in.nonce = slot.Nonce
	if slot.Body != nil {
		out.value, err = strconv.Atoi(string(slot.Body))
		ok(t, err)
	}
	return in, out, true
}

// TestCheckerSees: the checker is not blind to what this package prevents.
func TestCheckerSees(t *testing.T) {
	inc := func(call, back int64, token uint64, value int, stale bool) porcupine.Operation {
		return porcupine.Operation{ClientId: int(call), Input: operation{token: token}, Call: call, Output: outcome{stale, value}, Return: back}
	}
	for name, ops := range map[string][]porcupine.Operation{
		"lost update":        {inc(0, 1, 5, 1, false), inc(2, 3, 5, 1, false)},
		"token going back":   {inc(0, 1, 6, 1, false), inc(2, 3, 5, 2, false)},
		"counted twice":      {inc(0, 1, 5, 1, false), inc(2, 3, 5, 3, false)},
		"stale for nothing":  {inc(0, 1, 5, 1, false), inc(2, 3, 5, 0, true)},
		"stale before newer": {inc(0, 1, 5, 0, true), inc(2, 3, 6, 1, false)},
	} {
		if porcupine.CheckOperations(counterModel, ops) {
			t.Errorf("%s is taken for linearizable", name)
		}
	}
	good := []porcupine.Operation{inc(0, 9, 6, 1, false), inc(1, 8, 5, 0, true), inc(10, 11, 7, 2, false)}
	if !porcupine.CheckOperations(counterModel, good) {
		t.Error("what is linearizable is not taken for it")
	}
}
