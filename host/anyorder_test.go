package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Whatever callers do, in whatever order and at whatever moment, no machine is
// told what has no meaning to it (the loop would panic), nobody hangs, and
// nothing is left.
func TestAnyOrder(t *testing.T) {
	const seeds = 50
	for kind, call := range map[string]func(*chaos, *actor){
		"lastwriter": (*chaos).record, "strict": (*chaos).strict, "invocation": (*chaos).invocation,
	} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprint(kind, "/", seed), func(t *testing.T) {
				bubble(t, func(w *world) {
					c := &chaos{world: w, random: rand.New(rand.NewPCG(seed, 1)), handles: make(chan Handle, 1000)}
					c.run(call)
				})
			})
		}
	}
}

// chaos draws faults and calls from one seed.
type chaos struct {
	*world
	mu      sync.Mutex // over random: callers draw too
	random  *rand.Rand
	handles chan Handle
}

func (c *chaos) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chaos) ms(n int) time.Duration { return time.Duration(c.draw(n)) * time.Millisecond }

func (c *chaos) nap(d time.Duration) { <-time.After(d) }

func (c *chaos) fault(call) fault {
	f := fault{before: c.ms(50), after: c.ms(50)}
	switch c.draw(20) {
	case 0:
		f.class = []core.Class{core.ClassOther, core.ClassThrottled, core.ClassFull, core.ClassUnreachable}[c.draw(4)]
	case 1:
		f.lost = true
	case 2:
		f.late = c.ms(3000) + 1
	case 3:
		f.hang = true
	case 4:
		f.before = c.ms(5000)
	}
	return f
}

func (c *chaos) run(call func(*chaos, *actor)) {
	before := goroutines()
	hosts := []*actor{c.watching(nil), c.host(), c.host()}
	for _, p := range hosts {
		p.store.on(c.fault)
	}
	var callers sync.WaitGroup
	for range 6 {
		callers.Go(func() {
			for range 5 {
				call(c, hosts[c.draw(len(hosts))])
				c.nap(c.ms(2000))
			}
		})
	}
	if c.draw(2) == 0 {
		c.nap(c.ms(10_000))
	} else {
		callers.Wait()
	}
	for _, p := range hosts {
		_ = p.Close(c.limited(c.ms(20_000)))
	}
	callers.Wait()
	for _, p := range hosts {
		c.same("forgotten", p.tasks(), 0)
	}
	c.sleep(minute) // late puts
	if after := goroutines(); after > before {
		c.Fatalf("%d goroutines more", after-before)
	}
}

// record makes one lease or companion of lastwriter and treats it badly.
func (c *chaos) record(p *actor) {
	ctx := c.limited(c.ms(8000))
	name := "n" + strconv.Itoa(c.draw(2))
	short := Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(time.Duration(c.draw(3)*1000+500) * time.Millisecond)}
	handle := Handle{Name: name, Holder: c.status(name).Holder, TTL: short.TTL}
	if c.draw(2) == 0 {
		handle.Owner = "us"
	}
	switch c.draw(7) {
	case 0:
		_, _ = p.Renew(ctx, handle, &short)
	case 1:
		_ = p.ReleaseHandle(ctx, handle, &short)
	case 2:
		c.accompany(p, handle)
	case 3:
		if l, err := p.TryAcquire(ctx, name, &AcquireOptions{Terms: short}); err == nil {
			c.end(p, l.Release, l.Err)
		}
	default:
		c.acquire(p, name, short)
	}
}

// strict does the same, on sessions or not, and breaks what others hold.
func (c *chaos) strict(p *actor) {
	ctx := c.limited(c.ms(8000))
	name := "n" + strconv.Itoa(c.draw(2))
	var handle Handle
	select {
	case handle = <-c.handles:
	default:
	}
	switch kind := c.draw(9); {
	case kind == 0:
		_, _ = p.Break(ctx, name, &BreakOptions{Why: "why not", Now: c.draw(2) == 0})
	case kind == 1:
		for range p.List(ctx, "") {
			continue
		}
	case kind == 2:
		_, _ = p.Inspect(ctx, name)
	case kind == 3 && handle.Name != "":
		_, _ = p.Renew(ctx, handle, nil)
	case kind == 4 && handle.Name != "":
		_ = p.ReleaseHandle(ctx, handle, nil)
	case kind <= 5 && handle.Name != "":
		c.accompany(p, handle)
	default:
		c.acquire(p, name, Terms{
			Protocol: core.ProtocolStrict, TTL: core.TTL(time.Duration(c.draw(3)*1000+500) * time.Millisecond), Session: c.draw(2) == 0,
		})
	}
}

func (c *chaos) acquire(p *actor, name string, terms Terms) {
	l, err := p.Acquire(c.limited(c.ms(8000)), name, &AcquireOptions{Terms: terms, Wait: time.Duration(c.draw(5)) * time.Second})
	if err != nil {
		return
	}
	handle := l.Handle()
	if c.draw(2) == 0 {
		handle = l.OwnerHandle()
	}
	c.handles <- handle
	c.end(p, l.Release, l.Err)
}

func (c *chaos) accompany(p *actor, handle Handle) {
	if joined, err := p.Accompany(c.limited(c.ms(8000)), handle, nil); err == nil {
		c.end(p, joined.Leave, joined.Err)
	}
}

// end ends it never, once, or several times at once, sooner or later.
func (c *chaos) end(p *actor, end func(context.Context) error, err func() error) {
	c.nap(time.Duration(c.draw(3)) * time.Second)
	if c.draw(10) == 0 {
		p.clock.jump(c.ms(3000))
	}
	_ = err()
	var all sync.WaitGroup
	for range c.draw(4) {
		all.Go(func() {
			_ = end(c.limited(c.ms(3000)))
			_ = err()
		})
	}
	all.Wait()
}

// invocation begins one, or the work of somebody else's, and does what Next says, or does
// not, until it is over.
func (c *chaos) invocation(p *actor) {
	terms := []Terms{strict, onSession, ways["lastwriter"]}[c.draw(3)]
	terms.TTL = core.TTL(10 * time.Second)
	name := strconv.Itoa(c.draw(2))
	var i *Invocation
	var err error
	select {
	case handle := <-c.handles:
		i, err = p.BeginRemote(background, handle.Name, handle, &RemoteOptions{WithoutLease: c.draw(2) == 0, MemoFailures: c.draw(2) == 0})
	default:
		opts := &InvokeOptions{Terms: terms, Wait: time.Duration(c.draw(2)*c.draw(60)) * time.Second, MemoFailures: c.draw(2) == 0}
		opts.Try = opts.Wait == 0 && c.draw(3) == 0
		i, err = p.BeginInvoke(background, name, opts)
	}
	if err != nil {
		c.is(err, ErrClosed)
		return
	}
	for over := false; !over; {
		ctx := c.limited(time.Duration(1+c.draw(100)) * time.Second)
		work, err := i.Next(ctx)
		switch over = work == nil && ctx.Err() == nil; {
		case over:
			if (err == nil) == (i.Result() == nil) {
				c.Errorf("result %v, error %v", i.Result(), err)
			}
			if c.draw(2) == 0 {
				_ = i.Wait(background)
			}
		case work != nil:
			c.work(i, work)
		case c.draw(3) == 0:
			i.Cancel()
		}
	}
	if c.draw(4) == 0 {
		c.backend.remove(name + "/result")
	}
}

func (c *chaos) work(i *Invocation, work *Work) {
	switch c.nap(c.ms(20_000)); c.draw(9) {
	case 0:
		i.Cancel()
	case 1:
		if l := work.Lease(); l != nil {
			_ = l.Release(background)
		}
	case 2:
		work.Fail(Bytes([]byte("f")))
		work.End(errors.New("failed"))
	case 3, 4:
		if handle := work.Handle(); handle.Holder != "" {
			c.handles <- handle
		}
		work.End(nil)
	}
	if _ = work.Err(); c.draw(2) == 0 {
		work.Return(Bytes([]byte(strings.Repeat("r", c.draw(100)))))
	}
	work.End(nil)
}
