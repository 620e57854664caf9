package keep

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mopslock/mopslock/core"
)

// Belief is memory that the parent reads without asking: until when its claims may be relied on. It is
// words of eight bytes in the byte order of this machine, one a claim, at the place that the parent has chosen. A word is a Mono,
// rounded down to 256 ns, and in its lowest byte how many tenures the claim had before this one: a parent that was
// paused must not take the deadline of its second tenure for that of the first. 0 is nothing.
type Belief struct{ words []int64 }

// Tenures is how many bits of a word count tenures.
const tenureBits = 8

// OpenBelief maps a file, which the parent has made and maps as well. It stays mapped until the process ends. Where the
// system maps no files the error is errors.ErrUnsupported.
func OpenBelief(file *os.File) (*Belief, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < 16 || size%8 != 0 || size > 1<<30 {
		return nil, fmt.Errorf("mopslock: keep: the file of deadlines has %d bytes, and not some words of 8", size)
	}
	memory, err := mapped(file, size)
	if err != nil {
		return nil, fmt.Errorf("mopslock: keep: the file of deadlines cannot be mapped: %w", err)
	}
	return &Belief{words: unsafe.Slice((*int64)(memory), size/8)}, nil
}

// Words is how many claims it has room for.
func (b *Belief) Words() int {
	if b == nil {
		return 0
	}
	return len(b.words)
}

func (b *Belief) set(slot int, until int64, tenure uint8) {
	if slot == 0 {
		return // there was no room for the claim
	}
	word := int64(0)
	if until > 0 {
		word = until>>tenureBits<<tenureBits | int64(tenure)
	}
	atomic.StoreInt64(&b.words[slot], word)
}

// beliefs are those of one store's claims: each the later of its own deadline and that of the session
// on which it stands. They are written under the client's lock, in the order of its notices.
type beliefs struct {
	memory *Belief

	mu       sync.Mutex
	claims   map[uint64]*believed
	sessions map[uint64]*session
}

// believed is a claim.
type believed struct {
	slot   int
	own    int64
	on     *session
	tenure uint8
	held   bool // ever
	over   bool // this tenure is
	told   bool // all of it, also what can be read
}

// session is a heartbeat on which claims stand.
type session struct {
	until int64
	on    map[*believed]struct{}
}

func newBeliefs(memory *Belief) beliefs {
	return beliefs{memory: memory, claims: map[uint64]*believed{}, sessions: map[uint64]*session{}}
}

// begin takes where a claim's deadline is to be written. Without memory, or room in it, renewals are told.
func (b *beliefs) begin(claim uint64, slot int, told bool) {
	if slot < 0 || slot >= b.memory.Words() {
		slot = 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims[claim] = &believed{slot: slot, told: told || slot == 0}
}

// end forgets a claim.
func (b *beliefs) end(claim uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.claims[claim]; c != nil {
		b.forget(c)
		delete(b.claims, claim)
	}
}

func (b *beliefs) forget(c *believed) {
	c.over = true
	b.stand(c, nil)
	b.memory.set(c.slot, 0, 0)
}

// take writes what a notice says. It returns false if the parent need not be told, because it can read it.
func (b *beliefs) take(a *core.Action, last bool) (tell bool) {
	if b.memory == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.Claim == 0 {
		return b.ofSession(a)
	}
	c := b.claims[a.Claim]
	if c == nil {
		return true
	}
	switch a.Kind {
	case core.ActionHeld:
		if c.held {
			c.tenure++
		}
		c.held, c.over = true, false
		b.stand(c, b.sessions[a.On])
		c.own = a.At
		b.write(c)
	case core.ActionDeadline:
		b.stand(c, b.sessions[a.On])
		c.own = a.At
		b.write(c)
		return c.told
	case core.ActionRenewed:
		c.own = a.At
		b.write(c)
		return c.told
	case core.ActionLost, core.ActionReleased, core.ActionCannotMaintain, core.ActionFound, core.ActionAbsent, core.ActionRefused:
		b.forget(c) // also of work, which may get another tenure
	}
	if last {
		b.forget(c)
		delete(b.claims, a.Claim)
	}
	return true
}

// ofSession takes what is said of a session, and returns whether that is told. The claims that stand on one that is lost hear of
// their own end.
func (b *beliefs) ofSession(a *core.Action) (tell bool) {
	switch a.Kind {
	case core.ActionHeld:
		b.sessions[a.On] = &session{until: a.At, on: map[*believed]struct{}{}}
	case core.ActionRenewed:
		if s := b.sessions[a.On]; s != nil {
			s.until = a.At
			for c := range s.on {
				b.write(c)
				tell = tell || c.told
			}
		}
		return tell
	case core.ActionLost, core.ActionLeft:
		delete(b.sessions, a.On)
	}
	return true
}

func (b *beliefs) stand(c *believed, on *session) {
	if c.on != nil {
		delete(c.on.on, c)
	}
	if c.on = on; on != nil {
		on.on[c] = struct{}{}
	}
}

func (b *beliefs) write(c *believed) {
	if c.over {
		return
	}
	until := c.own
	if c.on != nil {
		until = max(until, c.on.until)
	}
	b.memory.set(c.slot, until, c.tenure)
}
