package fence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mopslock/mopslock/core"
)

// operation is one of a history: an increment or a raise under a token, or a read (token 0).
type operation struct {
	token uint64
	raise bool
}

type outcome struct {
	stale bool
	value int
}

type counter struct {
	token uint64
	value int
}

// counterModel is a counter that only the newest token may increment or raise.
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
		next := counter{in.token, c.value + 1}
		if in.raise {
			next.value = c.value
		}
		return in.token >= c.token && out.value == next.value, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// TestHammerHistory: goroutines of several tenures, some of which ended long ago, increment,
// raise and read while answers are lost. What they saw is linearizable. Along the chain
// tokens never go back, and each slot names the one before it.
func TestHammerHistory(t *testing.T) {
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
					t.Error("an outcome stayed unknown: raise settleTries")
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
	chained(t, open(t, s))
	return ops
}

// chained reads all slots back, down to those that were collected.
func chained(t *testing.T, o *Object) {
	newest, err := o.Read(t.Context())
	ok(t, err)
	for newest.Number > 1 {
		before, err := o.get(t.Context(), o.slotKey(newest.Number-1), newest.Number-1)
		if err != nil {
			return
		}
		if before.Token > newest.Token || before.Nonce != newest.After {
			t.Errorf("slot %+v follows %+v", newest, before)
		}
		newest = before
	}
}

// step does one operation of one client. A client's tenure is as new as its progress, so
// a slow client is stale.
func step(t *testing.T, o *Object, chance *rand.Rand, token uint64) (in operation, out outcome, known bool) {
	var slot Slot
	var err error
	if chance.IntN(4) == 0 {
		slot, err = o.Read(t.Context())
	} else if in.token, in.raise = token, chance.IntN(4) == 0; in.raise {
		slot, err = o.Raise(t.Context(), tenure(token))
	} else {
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
	if slot.Body != nil {
		out.value, err = strconv.Atoi(string(slot.Body))
		ok(t, err)
	}
	return in, out, true
}
