package host

import (
	"container/heap"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// keeper steps every machine of a Host, on one goroutine. Everybody else posts
// messages; nobody who posts ever waits for I/O or for a machine.
type keeper struct {
	host *Host

	mu     sync.Mutex
	queue  []message
	closed bool // no new members
	// sessions grows only; what is in one is the goroutine's own.
	sessions map[sessionTerms]*session
	dead     bool          // nobody takes messages any more
	bell     chan struct{} // rung when the queue has something

	force     chan struct{} // closed when a Close's ctx has ended
	forceOnce sync.Once
	forcedBy  error // why; set before force is closed

	stopped chan struct{} // closed when the goroutine and all I/O have ended
	io      sync.WaitGroup
	napping atomic.Bool
	ctx     context.Context // of all I/O
	stop    context.CancelFunc

	// The goroutine's own.
	members map[string][]*member // by name, in the order in which they came; see enroll
	count   int
	wakes   wakeHeap
	// services are members of the host's own, which are not counted.
	services map[*member]struct{}
	served   bool // the services were asked to end
	clock    storeClock
	small    queue
	large    queue // of transfers
	respite  respite
	outage   telemetry.Outage
	closing  bool // no member is added any more
	leftIO   bool // requests that nothing could end were left behind
	over     bool // no request is started any more
}

// message is an event for a machine, or something for the keeper itself.
type message struct {
	to    *member
	event core.Event
	do    func()
}

// idleCheck bounds how long the keeper sleeps while it keeps anything. Go's
// timers do not count the time that the machine slept, and the deadlines do.
const idleCheck = time.Second

func newKeeper(h *Host, slots int) *keeper {
	k := &keeper{
		host: h, bell: make(chan struct{}, 1), stopped: make(chan struct{}), force: make(chan struct{}),
		members: make(map[string][]*member), small: queue{slots: slots}, large: queue{slots: transfers},
		sessions: make(map[sessionTerms]*session), services: make(map[*member]struct{}),
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	go k.run()
	return k
}

// post hands a message to the keeper. After the keeper has stopped it is lost,
// and nobody is left whom it could concern: every member has ended.
func (k *keeper) post(msg message) {
	k.mu.Lock()
	if !k.dead {
		k.queue = append(k.queue, msg)
	}
	k.mu.Unlock()
	k.ring()
}

func (k *keeper) ring() {
	select {
	case k.bell <- struct{}{}:
	default:
	}
}

// add makes a member and starts its machine with its first event. What is let
// in here is in the queue before windDown is, so windDown ends it.
func (k *keeper) add(m *member, first core.Event) error {
	err := k.let(func() {
		k.enroll(m)
		if m.session != nil && m.invocation == nil { // which asks for it when it needs it
			k.open(m.session)
		}
		if !m.gone { // its session cannot be had
			k.step(m, first)
		}
	})
	if err != nil {
		k.drop(m) // may wait for the engine, so not under the lock
	}
	return err
}

// let posts what begins something, unless the Host is closed.
func (k *keeper) let(begin func()) error {
	k.mu.Lock()
	closed := k.closed
	if !closed {
		k.queue = append(k.queue, message{do: begin})
	}
	k.mu.Unlock()
	if closed {
		return ErrClosed
	}
	k.ring()
	return nil
}

func (k *keeper) enroll(m *member) {
	k.members[m.name] = append(k.members[m.name], m)
	k.count++
}

func (k *keeper) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// close ends every member and the keeper. It is forced when ctx ends; the error
// is why, unless everything had ended by then.
func (k *keeper) close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.post(message{do: k.windDown})
	select {
	case <-k.stopped:
	case <-ctx.Done():
		k.forceOnce.Do(func() {
			k.forcedBy = context.Cause(ctx)
			close(k.force)
		})
		k.ring()
		<-k.stopped
	}
	if k.count > 0 || k.leftIO {
		return k.forcedBy
	}
	return nil
}

func (k *keeper) isForced() bool {
	select {
	case <-k.force:
		return true
	default:
		return false
	}
}

// windDown asks every machine to end: what is held is released, what waits is
// cancelled, companions leave.
func (k *keeper) windDown() {
	if k.closing {
		return
	}
	k.closing = true
	for _, named := range k.members {
		for _, m := range slices.Clone(named) {
			m.letGo()
			k.bidFarewell(m)
		}
	}
}

// run is the keeper's goroutine.
func (k *keeper) run() {
	defer close(k.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		k.drain()
		k.wakeDue()
		if k.closing && k.count == 0 {
			k.farewellToServices()
		}
		if k.isForced() || k.closing && k.count == 0 && len(k.services) == 0 {
			break
		}
		if pause, ok := k.pause(); ok {
			timer.Reset(pause)
			k.nap(pause)
		} else {
			timer.Stop()
		}
		select {
		case <-k.bell:
		case <-timer.C:
		}
	}
	k.finish()
}

// finish stops all I/O, takes its last answers and ends who is left: nobody,
// unless it was forced. What they have in the store expires by itself.
func (k *keeper) finish() {
	k.over = true
	for m := range k.everybody() {
		m.cancelRequests()
	}
	k.stop()
	k.awaitIO()
	k.drain()
	for m := range k.everybody() {
		k.noteLeft(m)
		m.end(ErrClosed)
		k.drop(m)
	}
	k.awaitIO() // for watches that were just ended
	k.mu.Lock()
	k.dead, k.queue = true, nil
	k.mu.Unlock()
}

// stopGrace is what a forced close gives to requests that were just cancelled.
const stopGrace = time.Second

// awaitIO waits for all requests to end; but when the close is forced only as
// long as a cancelled request may take. A system call on a dead mount heeds no
// context, and nobody is to hang on it with us.
func (k *keeper) awaitIO() {
	ended := make(chan struct{})
	go func() {
		k.io.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-k.force:
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		k.leftIO = true
	}
}

func (k *keeper) everybody() iter.Seq[*member] {
	return func(yield func(*member) bool) {
		for _, named := range k.members {
			for _, m := range named {
				if !yield(m) {
					return
				}
			}
		}
		for m := range k.services {
			if !yield(m) {
				return
			}
		}
	}
}

// drain takes everything that was posted.
func (k *keeper) drain() {
	k.mu.Lock()
	queue := k.queue
	k.queue = nil
	k.mu.Unlock()
	for _, msg := range queue {
		switch {
		case msg.do != nil:
			msg.do()
		case !msg.to.gone:
			k.step(msg.to, msg.event)
		}
	}
}

func (k *keeper) wakeDue() {
	for len(k.wakes) > 0 && k.wakes[0].wakeAt <= k.host.clock.Now().Mono {
		k.step(k.wakes[0], core.Event{Kind: core.EventWoke})
	}
}

// pause is how long to sleep; not ok is until the bell.
func (k *keeper) pause() (time.Duration, bool) {
	k.mu.Lock()
	waiting := len(k.queue) > 0
	k.mu.Unlock()
	switch {
	case waiting:
		return 0, true
	case len(k.wakes) == 0:
		return 0, false
	}
	left := time.Duration(k.wakes[0].wakeAt - k.host.clock.Now().Mono)
	return max(0, min(left, idleCheck)), true
}

// step tells a machine what happened and carries out what it answers.
func (k *keeper) step(m *member, event core.Event) {
	m.leaving = m.leaving || isFarewell(event.Kind)
	now := k.inform(m, k.host.clock.Now(), &event)
	if m.gone {
		return
	}
	actions, err := m.machine.Step(now, event)
	if err != nil {
		if _, breach := errors.AsType[*core.Error](err); breach {
			panic("mopslock: host: " + err.Error()) // the host broke the contract
		}
		k.strand(m, err)
		actions, _ = m.machine.Step(now, event)
	}
	wake := int64(0)
	woken := false
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			k.request(m, *a)
		case a.Kind == core.ActionWake:
			wake, woken = a.At, true
		default:
			k.notice(m, a)
		}
	}
	k.setWake(m, wake, woken)
	m.thaw(wake, woken)
	m.tellTidied()
	switch {
	case m.invocation != nil:
		m.invocation.stepped()
	case m.shared != nil:
		m.shared.stepped()
	}
	switch {
	case m.gone: // its session cannot be had
	case m.machine.Idle() && !m.isAsked():
		k.remove(m)
	case m.missed && m.canLook():
		m.missed = false
		k.step(m, core.Event{Kind: core.EventChanged})
	}
}

// strand puts a stand-in where the engine has lost a machine. A request that is
// under way runs to its end; nobody asked for it to be undone.
func (k *keeper) strand(m *member, err error) {
	k.host.log.Error("the engine failed; the lease is no longer renewed", "name", m.name, "error", err)
	k.drop(m)
	m.trouble().stranded = err
	if m.invocation != nil {
		m.machine = m.invocation.strand()
		return
	}
	if m.shared != nil {
		m.machine = m.shared.strand()
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	twin := &stranded{
		companion: m.farewell == core.EventLeave, claims: m.guarded && !m.held || m.farewell == 0, held: m.held,
		deadline: m.relyUntil(), leaving: m.leaving, silent: m.silent, idle: m.over,
	}
	if m.beats != nil {
		twin.session, twin.companion = true, false
		if life := m.beats.life; life != nil {
			twin.held, twin.deadline = true, life.until.Load()
		}
	}
	m.machine = twin
}

// drop gives a machine back to its engine.
func (k *keeper) drop(m *member) {
	if m.troubles().stranded == nil && !m.foreign {
		k.host.engine.Drop(m.machine)
	}
}

// changed tells a waiter that its record may have changed. One that is just
// looking, or trying, may have read too early to see it, and looks once more
// when it waits again.
//
//	waiter   get(held) . . . . . . . . answered: wait, up to 5 s
//	holder        put(released) . answered: changed        <- would be lost
func (k *keeper) changed(m *member) {
	switch {
	case m.gone:
	case m.canLook():
		k.step(m, core.Event{Kind: core.EventChanged})
	default:
		m.missed = true
	}
}

// look has the keeper look at the clock on behalf of a member, and returns when
// it has, or has stopped.
func (k *keeper) look(m *member) {
	if m.via != nil {
		m = m.via
	}
	looked := make(chan struct{})
	k.post(message{do: func() {
		if !m.gone {
			k.step(m, core.Event{Kind: core.EventWoke})
		}
		close(looked)
	}})
	select {
	case <-looked:
	case <-k.stopped:
	}
}

func (k *keeper) setWake(m *member, at int64, set bool) {
	m.wakeAt = at
	switch {
	case set && m.index < 0:
		heap.Push(&k.wakes, m)
	case set:
		heap.Fix(&k.wakes, m.index)
	case m.index >= 0:
		heap.Remove(&k.wakes, m.index)
	}
}

// remove forgets a member whose machine waits for nothing any more.
func (k *keeper) remove(m *member) {
	m.gone = true
	m.end(errTaskDone) // unless it said how
	k.drop(m)
	m.cancelRequests()
	m.tellTidied()
	m.stopWatching()
	k.setWake(m, 0, false)
	if m.service {
		delete(k.services, m)
		return
	}
	named := k.members[m.name]
	if i := slices.Index(named, m); i >= 0 {
		named = slices.Delete(named, i, i+1)
		k.count--
	}
	if len(named) == 0 {
		delete(k.members, m.name)
	} else {
		k.members[m.name] = named
	}
}

// wakeHeap orders members by when their machines want to be woken.
type wakeHeap []*member

func (w wakeHeap) Len() int           { return len(w) }
func (w wakeHeap) Less(i, j int) bool { return w[i].wakeAt < w[j].wakeAt }
func (w wakeHeap) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push is for container/heap.
func (w *wakeHeap) Push(x any) {
	m := x.(*member)
	m.index = len(*w)
	*w = append(*w, m)
}

// Pop is for container/heap.
func (w *wakeHeap) Pop() any {
	old := *w
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	m.index = -1
	return m
}
