package child

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Signals owns the signals of the process, from before the first wait to the exit, on one channel. There is no moment at
// which nothing listens for a signal, or the wrong part does.
//
//	NewSignals ──► waiting ──Start──► forwarding ──(command ended)──► releasing ──Stop──►
//
//	              waiting                  forwarding               releasing
//	INT TERM      WaitContext ends         to the command's group   ReleaseContext ends (see below)
//	HUP QUIT      WaitContext ends         to the command's group   nothing
//	USR1 USR2
//	CONT WINCH    nothing                  to the command's group   nothing
//	TSTP
//	PIPE          nothing                  nothing                  nothing
//
// SIGCONT follows INT, TERM, HUP and QUIT to the command's group, because a stopped command cannot end.
//
// A signal ignored when we started is not caught, so that it stays ignored, and the command inherits that (nohup).
// Whatever we catch, the command gets with its default action.
//
// Releasing: systemd and others send SIGTERM to all processes of a service at once. The command may be gone before we
// have read ours, which must not make us give up the release:
//
//	systemd: TERM ──► command: ends, Done is closed
//	         TERM ──► us: read a moment later. Forwarded? Too late. "Give up the release"? Not meant
//
// So a signal counts if it comes a second or more after the end of the command, or is the second one since.
//
// After a command that was started with ThenWait we wait again, for a result that the command has left or for a lease.
// HUP and QUIT also end WaitContext then, and an INT or TERM after that ends ReleaseContext. Another command may be
// started. Here a signal that does not count yet is only put off, since the wait may be long: it ends the wait when the
// second is over, and no other command is started meanwhile:
//
//	command: ends     TERM: put off                  a second is over: WaitContext ends
//	   |----------------|---------------------------------|
//	                          the wait is over by itself: nothing was given up for it
type Signals struct {
	incoming chan os.Signal
	orphans  <-chan os.Signal // says that an adopted process may have ended; nil where we adopt none
	stop     chan struct{}
	stopped  chan struct{}

	mu          sync.Mutex
	started     bool // Start was called, so the wait is over, also if Start failed
	thenWait    bool // the wait begins again at the command's end
	forwarded   bool // the command was sent a signal that ends it
	child       *Child
	latest      *Child         // the same, until the next one is started
	endedAt     time.Time      // of the command; zero while it runs
	interrupted syscall.Signal // the first that ended the wait, or 0
	hurriedBy   syscall.Signal // the one that ended the release, or 0
	lateSignals int            // that may mean us, since the end of the command
	putOff      syscall.Signal // the first of them that ends a wait, or 0
	putOffUntil *time.Timer    // calls obeyPutOff; nil without one
	waitOver    chan struct{}  // closed with interrupted
	hurry       chan struct{}  // closed with hurriedBy
}

// signalBuffer bounds the signals that wait while Start forks. os/signal drops what does not fit.
const signalBuffer = 128

// simultaneous is how long after the end of the command a signal may still have been sent along with the one that
// ended it.
const simultaneous = time.Second

// NewSignals begins to listen. It must be called once, and before anything else has touched the signals.
func NewSignals() *Signals {
	s := &Signals{
		incoming: make(chan os.Signal, signalBuffer),
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
		waitOver: make(chan struct{}),
		hurry:    make(chan struct{}),
	}
	ignored := ignoredAtStart()
	for _, sig := range caughtSignals {
		if !ignored[sig] {
			signal.Notify(s.incoming, sig)
		}
	}
	s.orphans = adopted()
	go s.listen()
	return s
}

// Stop stops listening. Signals then work as in any Go program: INT and TERM end it.
func (s *Signals) Stop() {
	signal.Stop(s.incoming)
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetPutOffLocked()
}

// WaitContext is for all that happens before Start, and after a command that is ThenWait: it is cancelled by INT,
// TERM, HUP and QUIT, with an *Interrupted as its cause.
func (s *Signals) WaitContext(parent context.Context) (context.Context, context.CancelFunc) {
	return s.until(parent, s.waitOver, &s.interrupted)
}

// ReleaseContext is for all that happens after the command: it is cancelled by an INT or TERM that means it, with an
// *Interrupted as its cause.
func (s *Signals) ReleaseContext(parent context.Context) (context.Context, context.CancelFunc) {
	return s.until(parent, s.hurry, &s.hurriedBy)
}

func (s *Signals) until(parent context.Context, over <-chan struct{}, by *syscall.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-over:
			s.mu.Lock()
			cause := &Interrupted{Signal: *by}
			s.mu.Unlock()
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// Start ends the wait and starts the command; from then on signals go to the command. If a signal has already ended the
// wait the command is not started, and the error is an *Interrupted; otherwise it is that of Start. Because of the lock
// a signal is either seen before, and the command is not started, or forwarded after.
//
//	signal arrives     what happens
//	before the lock    interrupted is set: not started
//	during the fork    stays in the channel; listen waits for the lock, then forwards it
//	after              forwarded
func (s *Signals) Start(options Options) (*Child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteEndLocked() // of the one before
	if !s.started {
		s.drainLocked()
	}
	if s.putOff != 0 { // it would not reach the new command
		s.interruptLocked(s.putOff)
	}
	if s.interrupted != 0 {
		return nil, &Interrupted{Signal: s.interrupted}
	}
	s.started, s.thenWait, s.forwarded = true, false, false
	s.lateSignals, s.endedAt = 0, time.Time{}
	child, err := Start(options)
	if err != nil {
		s.endedAt = time.Now()
		return nil, err
	}
	s.child, s.latest, s.thenWait = child, child, options.ThenWait
	go s.noteEnd(child)
	return child, nil
}

// drainLocked handles the signals that came before Start and were not read yet.
func (s *Signals) drainLocked() {
	for {
		select {
		case sig := <-s.incoming:
			s.handleLocked(sig)
		default:
			return
		}
	}
}

// noteEnd notes the end of the command when it comes.
func (s *Signals) noteEnd(child *Child) {
	<-child.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteEndLocked()
}

// noteEndLocked is also called before each signal: a signal that comes after Done must not go to the ended command
// because noteEnd was not scheduled yet.
func (s *Signals) noteEndLocked() {
	if s.child == nil {
		return
	}
	select {
	case <-s.child.Done():
		s.child, s.endedAt = nil, time.Now()
		s.started = !s.thenWait
	default:
	}
}

// Forwarded reports whether the latest command was sent INT, TERM, HUP or QUIT. Its end is then not its own.
func (s *Signals) Forwarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarded
}

// listen handles signals until Stop.
func (s *Signals) listen() {
	defer close(s.stopped)
	for {
		select {
		case sig := <-s.incoming:
			s.mu.Lock()
			s.handleLocked(sig)
			s.mu.Unlock()
		case <-s.orphans:
			s.mu.Lock() // Start has the lock, so no command ends before it is known
			reapAdopted(s.latest)
			s.mu.Unlock()
		case <-s.stop:
			return
		}
	}
}

func (s *Signals) handleLocked(received os.Signal) {
	sig, ok := received.(syscall.Signal)
	if !ok || sig == syscall.SIGPIPE {
		return
	}
	s.noteEndLocked()
	hurries := sig == syscall.SIGINT || sig == syscall.SIGTERM
	switch {
	case s.child != nil:
		s.forwarded = s.forwarded || ending(sig)
		_ = s.child.forward(sig) // an error is a command that has ended
	case !s.started && s.interrupted == 0:
		switch {
		case !ending(sig):
		case s.meantLocked():
			s.interruptLocked(sig)
		default:
			s.putOffLocked(sig)
		}
	case hurries && s.hurriedBy == 0 && s.meantLocked():
		s.hurriedBy = sig
		close(s.hurry)
	}
}

// interruptLocked ends the wait, which goes on.
func (s *Signals) interruptLocked(sig syscall.Signal) {
	s.forgetPutOffLocked()
	s.interrupted = sig
	close(s.waitOver)
}

// putOffLocked keeps a signal until it can no longer have been sent with the one that ended the command.
func (s *Signals) putOffLocked(sig syscall.Signal) {
	s.putOff = sig
	s.putOffUntil = time.AfterFunc(simultaneous-time.Since(s.endedAt), s.obeyPutOff)
}

func (s *Signals) obeyPutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putOff != 0 && !s.started && s.interrupted == 0 { // otherwise another was faster
		s.interruptLocked(s.putOff)
	}
}

func (s *Signals) forgetPutOffLocked() {
	s.putOff = 0
	if s.putOffUntil != nil {
		s.putOffUntil.Stop()
		s.putOffUntil = nil
	}
}

// meantLocked reports whether a signal that comes now is for us.
func (s *Signals) meantLocked() bool {
	if s.endedAt.IsZero() {
		return true // there was no command that it could be meant for
	}
	s.lateSignals++
	return s.lateSignals > 1 || time.Since(s.endedAt) >= simultaneous
}

// ending reports whether sig ends a wait.
func ending(sig syscall.Signal) bool { return slices.Contains(endingSignals, sig) }
