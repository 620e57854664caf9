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

// loop steps every machine of a Host, on one goroutine. All others post messages, and
// never wait for I/O or for a machine when they do.
type loop struct {
	host *Host

	mu     sync.Mutex
	queue  []message
	closed bool // no new tasks
	// sessions grows only; what is in one is the goroutine's own.
	sessions map[sessionTerms]*session
	dead     bool          // nobody takes messages any more
	notified chan struct{} // has a value when the queue has something

	force     chan struct{} // closed when a Close's ctx has ended
	forceOnce sync.Once
	forcedBy  error // why; set before force is closed

	stopped  chan struct{} // closed when the goroutine and all I/O have ended
	io       sync.WaitGroup
	sleeping atomic.Bool     // a preciseSleep is under way
	ctx      context.Context // of all I/O
	stop     context.CancelFunc

	// The goroutine's own.
	tasks map[string][]*task // by name, in the order in which they came; see enroll
	count int
	wakes wakeHeap
	// services are tasks of the host's own, which are not counted.
	services   map[*task]struct{}
	served     bool // the services were asked to end
	clock      storeClock
	small      queue
	large      queue // of transfers
	retryAfter retryAfter
	outage     telemetry.Outage
	closing    bool // no task is added any more
	leftIO     bool // requests that nothing could end were left behind
	over       bool // no request is started any more
}

// message is an event for a machine, or a function for the loop to call.
type message struct {
	to    *task
	event core.Event
	do    func()
}

// idleCheck bounds how long the loop sleeps while it has any task. Go's timers do not
// count the time that the machine slept, and the deadlines do.
const idleCheck = time.Second

func newLoop(h *Host, slots int) *loop {
	k := &loop{
		host: h, notified: make(chan struct{}, 1), stopped: make(chan struct{}), force: make(chan struct{}),
		tasks: make(map[string][]*task), small: queue{slots: slots}, large: queue{slots: transfers},
		sessions: make(map[sessionTerms]*session), services: make(map[*task]struct{}),
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	go k.run()
	return k
}

// post hands a message to the loop. After the loop has stopped the message is lost. It
// concerns nothing then, since every task has ended.
func (k *loop) post(msg message) {
	k.mu.Lock()
	if !k.dead {
		k.queue = append(k.queue, msg)
	}
	k.mu.Unlock()
	k.notify()
}

// notify wakes the goroutine.
func (k *loop) notify() {
	select {
	case k.notified <- struct{}{}:
	default:
	}
}

// add adds a task and starts its machine with its first event. What is let in here
// is in the queue before shutdown is, so shutdown ends it.
func (k *loop) add(t *task, first core.Event) error {
	err := k.let(func() {
		k.enroll(t)
		if t.session != nil && t.invocation == nil { // which asks for it when it needs it
			k.open(t.session)
		}
		if !t.gone { // its session cannot be had
			k.step(t, first)
		}
	})
	if err != nil {
		k.dropMachine(t) // may wait for the engine, so not under the lock
	}
	return err
}

// let posts what begins something, unless the Host is closed.
func (k *loop) let(begin func()) error {
	k.mu.Lock()
	closed := k.closed
	if !closed {
		k.queue = append(k.queue, message{do: begin})
	}
	k.mu.Unlock()
	if closed {
		return ErrClosed
	}
	k.notify()
	return nil
}

func (k *loop) enroll(t *task) {
	k.tasks[t.name] = append(k.tasks[t.name], t)
	k.count++
}

func (k *loop) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// close ends every task and the loop. It is forced when ctx ends; the error
// says why, unless everything had ended by then.
func (k *loop) close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.post(message{do: k.shutdown})
	select {
	case <-k.stopped:
	case <-ctx.Done():
		k.forceOnce.Do(func() {
			k.forcedBy = context.Cause(ctx)
			close(k.force)
		})
		k.notify()
		<-k.stopped
	}
	if k.count > 0 || k.leftIO {
		return k.forcedBy
	}
	return nil
}

func (k *loop) isForced() bool {
	select {
	case <-k.force:
		return true
	default:
		return false
	}
}

// shutdown asks every machine to end: what is held is released, what waits is
// cancelled, companions leave.
func (k *loop) shutdown() {
	if k.closing {
		return
	}
	k.closing = true
	for _, named := range k.tasks {
		for _, t := range slices.Clone(named) {
			t.invalidate()
			k.stopTask(t)
		}
	}
}

// run is the loop's goroutine.
func (k *loop) run() {
	defer close(k.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		k.drain()
		k.wakeDue()
		if k.closing && k.count == 0 {
			k.stopServices()
		}
		if k.isForced() || k.closing && k.count == 0 && len(k.services) == 0 {
			break
		}
		if pause, ok := k.pause(); ok {
			timer.Reset(pause)
			k.preciseSleep(pause)
		} else {
			timer.Stop()
		}
		select {
		case <-k.notified:
		case <-timer.C:
		}
	}
	k.finish()
}

// finish stops all I/O, takes its last answers and ends who is left: nobody,
// unless it was forced. What they have in the store expires by itself.
func (k *loop) finish() {
	k.over = true
	for t := range k.everybody() {
		t.cancelRequests()
	}
	k.stop()
	k.awaitIO()
	k.drain()
	for t := range k.everybody() {
		k.recordLeft(t)
		t.end(ErrClosed)
		k.dropMachine(t)
	}
	k.awaitIO() // for watches that were just ended
	k.mu.Lock()
	k.dead, k.queue = true, nil
	k.mu.Unlock()
}

// stopGrace is what a forced close gives to requests that were just cancelled.
const stopGrace = time.Second

// awaitIO waits for all requests to end; when the close is forced only as long as a
// cancelled request may take. A system call on a dead mount obeys no context, and Close
// must not hang on it.
func (k *loop) awaitIO() {
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

func (k *loop) everybody() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		for _, named := range k.tasks {
			for _, t := range named {
				if !yield(t) {
					return
				}
			}
		}
		for t := range k.services {
			if !yield(t) {
				return
			}
		}
	}
}

// drain takes everything that was posted.
func (k *loop) drain() {
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

func (k *loop) wakeDue() {
	for len(k.wakes) > 0 && k.wakes[0].wakeAt <= k.host.clock.Now().Mono {
		k.step(k.wakes[0], core.Event{Kind: core.EventWoke})
	}
}

// pause is how long to sleep; not ok is until it is notified.
func (k *loop) pause() (time.Duration, bool) {
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
func (k *loop) step(t *task, event core.Event) {
	t.stopping = t.stopping || isStop(event.Kind)
	now := k.inform(t, k.host.clock.Now(), &event)
	if t.gone {
		return
	}
	actions, err := t.machine.Step(now, event)
	if err != nil {
		if _, breach := errors.AsType[*core.Error](err); breach {
			panic("mopslock: host: " + err.Error()) // the host broke the contract
		}
		k.engineFailed(t, err)
		actions, _ = t.machine.Step(now, event)
	}
	wake := int64(0)
	woken := false
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			k.request(t, *a)
		case a.Kind == core.ActionWake:
			wake, woken = a.At, true
		default:
			k.notice(t, a)
		}
	}
	k.setWake(t, wake, woken)
	t.releaseDeadline(wake, woken)
	t.tellTidied()
	switch {
	case t.invocation != nil:
		t.invocation.stepped()
	case t.shared != nil:
		t.shared.stepped()
	}
	switch {
	case t.gone: // its session cannot be had
	case t.machine.Idle() && !t.isAsked():
		k.remove(t)
	case t.missed && t.canLook():
		t.missed = false
		k.step(t, core.Event{Kind: core.EventChanged})
	}
}

// engineFailed puts a stand-in where the engine has lost a machine. A request that is
// under way runs to its end; nobody asked for it to be undone.
func (k *loop) engineFailed(t *task, err error) {
	k.host.log.Error("the engine failed; the lease is no longer renewed", "name", t.name, "error", err)
	k.dropMachine(t)
	t.makeFailures().engine = err
	if t.invocation != nil {
		t.machine = t.invocation.standIn()
		return
	}
	if t.shared != nil {
		t.machine = t.shared.standIn()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	standIn := &engineFailed{
		companion: t.stopKind == core.EventLeave, acquiring: t.guarded && !t.held || t.stopKind == 0, held: t.held,
		deadline: t.relyUntil(), stopping: t.stopping, silent: t.silent, idle: t.over,
	}
	if t.beats != nil {
		standIn.session, standIn.companion = true, false
		if instance := t.beats.instance; instance != nil {
			standIn.held, standIn.deadline = true, instance.until.Load()
		}
	}
	t.machine = standIn
}

// dropMachine gives a machine back to its engine.
func (k *loop) dropMachine(t *task) {
	if t.readFailures().engine == nil && !t.foreign {
		k.host.engine.Drop(t.machine)
	}
}

// changed tells a waiter that its record may have changed. One that is just
// looking, or trying, may have read too early to see it, and looks once more
// when it waits again.
//
//	waiter   get(held) . . . . . . . . answered: wait, up to 5 s
//	holder        put(released) . answered: changed        <- would be lost
func (k *loop) changed(t *task) {
	switch {
	case t.gone:
	case t.canLook():
		k.step(t, core.Event{Kind: core.EventChanged})
	default:
		t.missed = true
	}
}

// look has the loop check the clock on behalf of a task, and returns when it has, or
// when it has stopped.
func (k *loop) look(t *task) {
	if t.via != nil {
		t = t.via
	}
	looked := make(chan struct{})
	k.post(message{do: func() {
		if !t.gone {
			k.step(t, core.Event{Kind: core.EventWoke})
		}
		close(looked)
	}})
	select {
	case <-looked:
	case <-k.stopped:
	}
}

func (k *loop) setWake(t *task, at int64, set bool) {
	t.wakeAt = at
	switch {
	case set && t.index < 0:
		heap.Push(&k.wakes, t)
	case set:
		heap.Fix(&k.wakes, t.index)
	case t.index >= 0:
		heap.Remove(&k.wakes, t.index)
	}
}

// remove forgets a task whose machine waits for nothing any more.
func (k *loop) remove(t *task) {
	t.gone = true
	t.end(errDone) // unless it said how
	k.dropMachine(t)
	t.cancelRequests()
	t.tellTidied()
	t.stopWatching()
	k.setWake(t, 0, false)
	if t.service {
		delete(k.services, t)
		return
	}
	named := k.tasks[t.name]
	if i := slices.Index(named, t); i >= 0 {
		named = slices.Delete(named, i, i+1)
		k.count--
	}
	if len(named) == 0 {
		delete(k.tasks, t.name)
	} else {
		k.tasks[t.name] = named
	}
}

// wakeHeap orders tasks by when their machines want to be woken.
type wakeHeap []*task

func (w wakeHeap) Len() int           { return len(w) }
func (w wakeHeap) Less(i, j int) bool { return w[i].wakeAt < w[j].wakeAt }
func (w wakeHeap) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push is for container/heap.
func (w *wakeHeap) Push(x any) {
	t := x.(*task)
	t.index = len(*w)
	*w = append(*w, t)
}

// Pop is for container/heap.
func (w *wakeHeap) Pop() any {
	old := *w
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	t.index = -1
	return t
}
