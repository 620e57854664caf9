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
	l := &loop{
		host: h, notified: make(chan struct{}, 1), stopped: make(chan struct{}), force: make(chan struct{}),
		tasks: make(map[string][]*task), small: queue{slots: slots}, large: queue{slots: transfers},
		sessions: make(map[sessionTerms]*session), services: make(map[*task]struct{}),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	go l.run()
	return l
}

// post hands a message to the loop. After the loop has stopped the message is lost. It
// concerns nothing then, since every task has ended.
func (l *loop) post(msg message) {
	l.mu.Lock()
	if !l.dead {
		l.queue = append(l.queue, msg)
	}
	l.mu.Unlock()
	l.notify()
}

// notify wakes the goroutine.
func (l *loop) notify() {
	select {
	case l.notified <- struct{}{}:
	default:
	}
}

// add adds a task and starts its machine with its first event. What is let in here
// is in the queue before shutdown is, so shutdown ends it.
func (l *loop) add(t *task, first core.Event) error {
	err := l.let(func() {
		l.enroll(t)
		if t.session != nil && t.invocation == nil { // which asks for it when it needs it
			l.open(t.session)
		}
		if !t.gone { // it has no session, and can have none
			l.step(t, first)
		}
	})
	if err != nil {
		l.dropMachine(t) // may wait for the engine, so not under the lock
	}
	return err
}

// let posts what begins something, unless the Host is closed.
func (l *loop) let(begin func()) error {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, message{do: begin})
	}
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	l.notify()
	return nil
}

func (l *loop) enroll(t *task) {
	l.tasks[t.name] = append(l.tasks[t.name], t)
	l.count++
}

func (l *loop) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close ends every task and the loop. It is forced when ctx ends; the error
// says why, unless everything had ended by then.
func (l *loop) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.post(message{do: l.shutdown})
	select {
	case <-l.stopped:
	case <-ctx.Done():
		l.forceOnce.Do(func() {
			l.forcedBy = context.Cause(ctx)
			close(l.force)
		})
		l.notify()
		<-l.stopped
	}
	if l.count > 0 || l.leftIO {
		return l.forcedBy
	}
	return nil
}

func (l *loop) isForced() bool {
	select {
	case <-l.force:
		return true
	default:
		return false
	}
}

// shutdown asks every machine to end: what is held is released, what waits is
// cancelled, companions leave.
func (l *loop) shutdown() {
	if l.closing {
		return
	}
	l.closing = true
	for _, named := range l.tasks {
		for _, t := range slices.Clone(named) {
			t.invalidate()
			l.stopTask(t)
		}
	}
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer close(l.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.drain()
		l.wakeDue()
		if l.closing && l.count == 0 {
			l.stopServices()
		}
		if l.isForced() || l.closing && l.count == 0 && len(l.services) == 0 {
			break
		}
		if pause, ok := l.pause(); ok {
			timer.Reset(pause)
			l.preciseSleep(pause)
		} else {
			timer.Stop()
		}
		select {
		case <-l.notified:
		case <-timer.C:
		}
	}
	l.finish()
}

// finish stops all I/O, takes its last answers and ends who is left: nobody,
// unless it was forced. What they have in the store expires by itself.
func (l *loop) finish() {
	l.over = true
	for t := range l.everybody() {
		t.cancelRequests()
	}
	l.stop()
	l.awaitIO()
	l.drain()
	for t := range l.everybody() {
		l.recordLeft(t)
		t.end(ErrClosed)
		l.dropMachine(t)
	}
	l.awaitIO() // for watches that were just ended
	l.mu.Lock()
	l.dead, l.queue = true, nil
	l.mu.Unlock()
}

// stopGrace is what a forced close gives to requests that were just cancelled.
const stopGrace = time.Second

// awaitIO waits for all requests to end; when the close is forced only as long as a
// cancelled request may take. A system call on a dead mount obeys no context, and Close
// must not hang on it.
func (l *loop) awaitIO() {
	ended := make(chan struct{})
	go func() {
		l.io.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-l.force:
	}
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		l.leftIO = true
	}
}

func (l *loop) everybody() iter.Seq[*task] {
	return func(yield func(*task) bool) {
		for _, named := range l.tasks {
			for _, t := range named {
				if !yield(t) {
					return
				}
			}
		}
		for t := range l.services {
			if !yield(t) {
				return
			}
		}
	}
}

// drain takes everything that was posted.
func (l *loop) drain() {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, msg := range queue {
		switch {
		case msg.do != nil:
			msg.do()
		case !msg.to.gone:
			l.step(msg.to, msg.event)
		}
	}
}

func (l *loop) wakeDue() {
	for len(l.wakes) > 0 && l.wakes[0].wakeAt <= l.host.clock.Now().Mono {
		l.step(l.wakes[0], core.Event{Kind: core.EventWoke})
	}
}

// pause is how long to sleep; not ok is until it is notified.
func (l *loop) pause() (time.Duration, bool) {
	l.mu.Lock()
	waiting := len(l.queue) > 0
	l.mu.Unlock()
	switch {
	case waiting:
		return 0, true
	case len(l.wakes) == 0:
		return 0, false
	}
	left := time.Duration(l.wakes[0].wakeAt - l.host.clock.Now().Mono)
	return max(0, min(left, idleCheck)), true
}

// step tells a machine what happened and carries out what it answers.
func (l *loop) step(t *task, event core.Event) {
	t.stopping = t.stopping || isStop(event.Kind)
	now := l.inform(t, l.host.clock.Now(), &event)
	if t.gone {
		return
	}
	actions, err := t.machine.Step(now, event)
	if err != nil {
		if _, breach := errors.AsType[*core.Error](err); breach {
			panic("mopslock: host: " + err.Error()) // the host broke the contract
		}
		l.engineFailed(t, err)
		actions, _ = t.machine.Step(now, event)
	}
	wake := int64(0)
	woken := false
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			l.request(t, *a)
		case a.Kind == core.ActionWake:
			wake, woken = a.At, true
		default:
			l.notice(t, a)
		}
	}
	l.setWake(t, wake, woken)
	t.releaseDeadline(wake, woken)
	t.tellTidied()
	switch {
	case t.invocation != nil:
		t.invocation.stepped()
	case t.shared != nil:
		t.shared.stepped()
	}
	switch {
	case t.gone: // it has no session, and can have none
	case t.machine.Idle() && !t.isAsked():
		l.remove(t)
	case t.missed && t.canLook():
		t.missed = false
		l.step(t, core.Event{Kind: core.EventChanged})
	}
}

// engineFailed puts a stand-in where the engine has lost a machine. A request that is
// under way runs to its end; nobody asked for it to be undone.
func (l *loop) engineFailed(t *task, err error) {
	l.host.log.Error("the engine failed; the lease is no longer renewed", "name", t.name, "error", err)
	l.dropMachine(t)
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
func (l *loop) dropMachine(t *task) {
	if t.readFailures().engine == nil && !t.foreign {
		l.host.engine.Drop(t.machine)
	}
}

// changed tells a waiter that its record may have changed. One that is just
// looking, or trying, may have read too early to see it, and looks once more
// when it waits again.
//
//	waiter   get(held) . . . . . . . . answered: wait, up to 5 s
//	holder        put(released) . answered: changed        <- would be lost
func (l *loop) changed(t *task) {
	switch {
	case t.gone:
	case t.canLook():
		l.step(t, core.Event{Kind: core.EventChanged})
	default:
		t.missed = true
	}
}

// look has the loop check the clock on behalf of a task, and returns when it has, or
// when it has stopped.
func (l *loop) look(t *task) {
	if t.via != nil {
		t = t.via
	}
	looked := make(chan struct{})
	l.post(message{do: func() {
		if !t.gone {
			l.step(t, core.Event{Kind: core.EventWoke})
		}
		close(looked)
	}})
	select {
	case <-looked:
	case <-l.stopped:
	}
}

func (l *loop) setWake(t *task, at int64, set bool) {
	t.wakeAt = at
	switch {
	case set && t.index < 0:
		heap.Push(&l.wakes, t)
	case set:
		heap.Fix(&l.wakes, t.index)
	case t.index >= 0:
		heap.Remove(&l.wakes, t.index)
	}
}

// remove forgets a task whose machine waits for nothing any more.
func (l *loop) remove(t *task) {
	t.gone = true
	t.end(errDone) // unless it said how
	l.dropMachine(t)
	t.cancelRequests()
	t.tellTidied()
	t.stopWatching()
	l.setWake(t, 0, false)
	if t.service {
		delete(l.services, t)
		return
	}
	named := l.tasks[t.name]
	if i := slices.Index(named, t); i >= 0 {
		named = slices.Delete(named, i, i+1)
		l.count--
	}
	if len(named) == 0 {
		delete(l.tasks, t.name)
	} else {
		l.tasks[t.name] = named
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
