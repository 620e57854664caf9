package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/supervise"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// heldLease is what a command runs under: a *host.Lease, or a permit of a semaphore.
type heldLease interface {
	Name() string
	TTL() core.TTL
	Left() time.Duration
	Done() <-chan struct{}
	Err() error
	Release(context.Context) error
}

// subject is how lines on stderr begin.
func subject(of heldLease) string {
	if _, ok := of.(permit); ok {
		return "permit of " + of.Name()
	}
	return "lease " + of.Name()
}

// supervisor returns the Supervisor of a command.
func (a *app) supervisor(c command, name string, loss *lossFlags) *supervise.Supervisor {
	return &supervise.Supervisor{Command: c, Name: name, Continue: loss.continues(), Grace: loss.grace, Say: a.console.Printf}
}

// under runs a command under a lease or a permit to its end, and releases that. It returns an
// *exit.Error, also if all went well.
func (a *app) under(lease heldLease, argv, env []string, loss *lossFlags, margin time.Duration) error {
	options := childOptions(argv, env)
	options.OnStop = func() { a.stoppedHolding(lease) }
	options.OnContinue = func() bool { return loss.mayContinue(lease) }
	c, err := a.signals.Start(options)
	if err != nil {
		a.releaseAfter(lease)
		return err
	}
	defer c.Close()
	s := a.supervisor(c, lease.Name(), loss)
	_, s.Permit = lease.(permit)
	out := s.Holder(lease, margin)
	a.releaseAfter(lease)
	return out
}

// stoppedHolding says what becomes of the lease while Ctrl-Z has stopped us.
func (a *app) stoppedHolding(lease heldLease) {
	if lease.TTL() == core.TTLEndless {
		a.console.Printf("stopped; the lease stays held meanwhile")
		return
	}
	what, _, _ := strings.Cut(subject(lease), " ")
	a.console.Printf("stopped; the %s is not renewed meanwhile and will be lost after its TTL", what)
}

// releaseAfter releases the lease when CMD has ended. CMD's status stands, also
// if the release fails.
func (a *app) releaseAfter(lease heldLease) {
	if lease.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(a.closing, max(0, lease.Left())))
	defer cancel()
	ctx, stop := a.signals.ReleaseContext(ctx)
	defer stop()
	if err := lease.Release(ctx); err != nil {
		a.closeNow()
		var lost *host.Error
		if errors.As(err, &lost) && lost.Reason == core.ReasonTaken {
			a.console.Printf("%s was no longer ours when it was to be released: %s", subject(lease), exit.Text(err))
			return
		}
		if lease.TTL() == core.TTLEndless {
			a.console.Printf("%s could not be released; having no ttl, it stays held until mopslock-host break ends it", subject(lease))
			return
		}
		// A write that we gave up may have landed as late as now.
		a.console.Printf("%s could not be released; it will expire by itself, at the latest at %s",
			subject(lease), time.Now().Add(lease.TTL().Duration()).Local().Format(time.DateTime))
	}
}

func childOptions(argv, env []string) child.Options {
	return child.Options{Argv: argv, Env: env, ParentDeath: true}
}

// heldVariable lists the leases and permits of this process and its ancestors, one
// name@store a line.
const heldVariable = "MOPSLOCK_HELD"

func (a *app) heldHere(name, url string) bool {
	for line := range strings.Lines(a.getenv(heldVariable)) {
		above, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+"@")
		if place := store.Place(above); found && place != "" && place == store.Place(url) {
			return true
		}
	}
	return false
}

// heldAbove returns the exit for a name that an ancestor of this process holds: a
// wait for it would never end.
func heldAbove(name string) *exit.Error {
	return &exit.Error{
		Status: exit.StatusNotAcquired, Reason: core.ReasonHeld.String(),
		Text: "lease " + name + " is held by a run that this one is part of; it cannot wait for itself",
	}
}

// childEnv is our environment with what CMD needs to know of the lease.
func (a *app) childEnv(handle host.Handle, store string) []string {
	handle.Owner = ""
	return a.environment(map[string]string{
		"MOPSLOCK_NAME":   handle.Name,
		"MOPSLOCK_STORE":  store,
		"MOPSLOCK_HOLDER": handle.Holder,
		"MOPSLOCK_TOKEN":  strconv.FormatUint(handle.Token, 10), // 0 under lastwriter, which has none
		"MOPSLOCK_LEASE":  handle.String(),
		heldVariable:      a.heldWith(handle.Name, store),
	})
}

// heldWith returns heldVariable's value with one more name.
func (a *app) heldWith(name, store string) string {
	held := name + "@" + store
	if ours := a.getenv(heldVariable); ours != "" {
		return ours + "\n" + held
	}
	return held
}

// environment returns our environment, with CMD's own variables in the place of
// ours.
func (a *app) environment(own map[string]string) []string {
	env := make([]string, 0, len(own))
	for _, line := range a.env {
		key, _, _ := strings.Cut(line, "=")
		if _, replaced := own[key]; !replaced {
			env = append(env, line)
		}
	}
	for key, value := range own {
		env = append(env, key+"="+value)
	}
	return env
}

// warnOfStrict warns if another process holds the name, or permits of it, under strict. The two
// protocols do not see each other then: strict looks for a lock.json only if there was one when
// it acquired, and lastwriter never looks for versions. If the inspection fails there is no
// warning: the lease is held.
func (a *app) warnOfStrict(ctx context.Context, h *host.Host, name string) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	seen, err := h.Inspect(ctx, name)
	switch {
	case err != nil || seen.Protocol != core.ProtocolStrict || seen.State != core.ObservedHeld:
	case seen.IsSemaphore():
		a.console.Printf("warning: %s is a semaphore's name, too, of which %d are held, and lastwriter does not see it; use two names",
			host.Printable(name), seen.Held)
	default:
		a.console.Printf("warning: a strict lease is held on %s, too, by %s, and lastwriter does not see it; use one protocol for a name",
			host.Printable(name), seen.Who())
	}
}

// acquireLease acquires, and shows which holder it waits for.
func (a *app) acquireLease(ctx context.Context, h *host.Host, name string, claim *acquireFlags) (*host.Lease, error) {
	defer a.console.StopWaiting()
	opts := &host.AcquireOptions{
		Terms:     claim.terms(),
		OnWaiting: func(s host.Status) { a.console.WaitingFor(name, s) },
	}
	acquire := h.Acquire
	switch {
	case claim.wait == 0:
		acquire = h.TryAcquire
	case claim.wait > 0:
		opts.Wait = claim.wait
	}
	lease, err := acquire(ctx, name, opts)
	if err == nil && lease.Protocol() == core.ProtocolLastWriter {
		a.warnOfStrict(ctx, h, name)
	}
	return lease, err
}
