package main

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

func (a *app) permitCommand() *cobra.Command {
	var claim permitFlags
	var loss lossFlags
	cmd := &cobra.Command{
		Use:   "permit NAME --capacity C [--width W] [flags] -- CMD [ARG...]",
		Short: "run CMD under a permit of the semaphore NAME",
		Long: `Acquire a permit of NAME, a semaphore that all users of the store share, run CMD, release the permit, and exit with
CMD's status. A permit is granted when the permits held, plus this one, fit within capacity x width as given on this
command line. Other callers may give other values, and smaller ones take nothing from a holder. Processes do not queue:
any permit that fits is granted, so light permits may pass a heavy one for as long as they come. Callers of light permits
leave it room by --spare. Strict only.

CMD gets MOPSLOCK_NAME, MOPSLOCK_STORE, MOPSLOCK_HOLDER (the permit's id), MOPSLOCK_TOKEN (the fencing token; those
that were let in together have the same) and MOPSLOCK_HELD in its environment, and a process group of its own.
Nobody can accompany a permit: MOPSLOCK_LEASE is not set, and that of a run around this one stays as it was.

A permit within a permit of the same NAME is another one, and may have to wait for the one around it. permit then
warns on stderr, and --wait bounds the wait.

The permit depends on a session of this process, which is renewed while CMD runs. When it is lost, CMD's group gets
SIGTERM, then SIGKILL, and the status is 76 (--on-loss, --grace). If mopslock-host is killed (SIGKILL), CMD is killed
with it on Linux, but not what CMD has started; the permit is free a TTL later.`,
		Example: `  mopslock-host permit api --capacity 50 --width 3 -- ./crawl.sh
  mopslock-host permit gpu --capacity 8 --weight 4 --wait 0 -- ./train.sh || test $? = 75
  mopslock-host permit api --capacity 50 --width 3 --spare 10 -- ./batch.sh      # ten are kept for others
  mopslock-host permit api --capacity 50 --width 3 --store-limit 40 -- ./crawl.sh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, argv, err := commandArgs(cmd, args, 1)
			if err != nil {
				return err
			}
			if err := exit.Usage(append(claim.check(names[0]), loss.check(claim.sessionTTL().Duration())...)...); err != nil {
				return err
			}
			return a.permit(cmd, names[0], argv, &claim, &loss)
		},
	}
	claim.add(cmd)
	loss.add(cmd)
	cmd.Flags().Lookup("on-loss").Usage = "terminate or continue: what becomes of CMD when the permit is lost"
	return cmd
}

// permit returns an *exit.Error, also if all went well.
func (a *app) permit(cmd *cobra.Command, name string, argv []string, claim *permitFlags, loss *lossFlags) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer a.close(h)
	p, err := a.acquirePermit(ctx, h, name, claim)
	if err != nil {
		return err
	}
	return a.under(permit{p, claim.sessionTTL()}, argv, a.permitEnv(p, h.URL()), loss, claim.margin)
}

// permit is a host.Permit with the TTL of its session.
type permit struct {
	*host.Permit
	ttl core.TTL
}

func (p permit) TTL() core.TTL { return p.ttl }

// acquirePermit acquires, and shows which holders it waits for.
func (a *app) acquirePermit(ctx context.Context, h *host.Host, name string, claim *permitFlags) (*host.Permit, error) {
	defer a.console.StopWaiting()
	wait := claim.wait
	if claim.given("store-limit") {
		begun := time.Now()
		if err := a.setLimit(ctx, h, name, claim); err != nil {
			return nil, err
		}
		if wait > 0 {
			wait = max(0, wait-time.Since(begun))
		}
	}
	full := claim.occupancy()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	opts := &host.PermitOptions{Terms: claim.terms(), Weight: claim.weight, Spare: claim.spare}
	opts.OnWaiting = func(s host.Status) {
		a.console.WaitingForPermit(name, &full, s)
		if a.heldHere(name, h.URL()) {
			a.console.Printf("%s: a command that this one is part of holds permits of it, too: if it waits for this one, both wait for ever; --wait bounds it", host.Printable(name))
		}
		if a.console.OnTerminal() {
			go a.followOccupancy(ctx, h, name) // ends with ctx
		}
	}
	acquire := h.AcquirePermit
	switch {
	case wait == 0:
		acquire = h.TryAcquirePermit
	case wait > 0:
		opts.Wait = wait
	}
	p, err := acquire(ctx, name, claim.view(), opts)
	return p, withoutPermit(&full, name, err)
}

// followOccupancy keeps the live line up to date: a Host reports only once that there is no room.
func (a *app) followOccupancy(ctx context.Context, h *host.Host, name string) {
	ticker := time.NewTicker(core.PollCap)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if seen, err := h.Inspect(ctx, name); err == nil && seen.IsSemaphore() {
			a.console.StillWaiting(seen)
		}
	}
}

// setLimit runs before the acquire, so that the limit also caps this permit. The limit
// stays, also if the permit is not acquired.
func (a *app) setLimit(ctx context.Context, h *host.Host, name string, claim *permitFlags) error {
	patience := claim.wait
	if patience == 0 {
		patience = closeLimit // trying once takes a few requests
	}
	if patience > 0 {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = within
	}
	err := h.SetLimit(ctx, name, uint64(claim.storeLimit))
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	out := &exit.Error{
		Status: exit.StatusUnavailable, Reason: core.ReasonLimit.String(),
		Text: "limit of " + host.Printable(name) + ": the wait was over, and it is unknown whether the store has taken it; status shows it",
	}
	if !h.Reached() {
		out.Reason = core.ReasonUnreachable.String()
		out.Text = "limit of " + host.Printable(name) + " not set: the store has not answered once; check its URL and the network"
	}
	return out
}

// permitEnv is our environment with what CMD needs to know of the permit.
func (a *app) permitEnv(p *host.Permit, store string) []string {
	return a.environment(map[string]string{
		"MOPSLOCK_NAME":   p.Name(),
		"MOPSLOCK_STORE":  store,
		"MOPSLOCK_HOLDER": p.Holder(),
		"MOPSLOCK_TOKEN":  strconv.FormatUint(p.FencingToken(), 10),
		heldVariable:      a.heldWith(p.Name(), store),
	})
}

// permitFlags are those of the acquiring commands, and those of a permit.
type permitFlags struct {
	acquireFlags
	capacity, width int
	weight, spare   int
	storeLimit      int64
}

func (f *permitFlags) add(cmd *cobra.Command) {
	f.acquireFlags.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.capacity, "capacity", 0, "how many permits each bucket has; required")
	flags.IntVar(&f.width, "width", 1, "how many buckets there are")
	flags.IntVar(&f.weight, "weight", 1, "how many permits this one takes, all or none")
	flags.IntVar(&f.spare, "spare", 0, "leave so many permits to callers that spare fewer")
	flags.Int64Var(&f.storeLimit, "store-limit", 0, "first keep a limit in the store that caps every caller's capacity x width; it stays when CMD has ended, and 0 removes it")
	flags.Lookup("ttl").Usage = "how long the permit lives without a renewal of its session (default 60s)"
	flags.Lookup("protocol").Usage = "auto or strict, which are one here: lastwriter has no permits"
	flags.Lookup("session").Usage = "changes nothing here: a permit always depends on a session of this process"
	flags.Lookup("wait").Usage = "the longest to wait for room; 0 tries once (default: until there is room)"
	flags.Lookup("label").Usage = "a word for people, shown by status: at most 128 bytes"
	_ = flags.MarkHidden("acquire-margin") // these two are lastwriter's; the errors would say that there is no such flag
	_ = flags.MarkHidden("fleet-expire")
}

func (f *permitFlags) view() host.View { return host.View{Capacity: f.capacity, Width: f.width} }

func (f *permitFlags) occupancy() report.Occupancy {
	return report.Occupancy{View: f.view(), Weight: uint64(f.weight), Spare: uint64(f.spare)}
}

// terms are those of the session.
func (f *permitFlags) terms() host.Terms {
	terms := f.acquireFlags.terms()
	terms.Protocol, terms.Session = core.ProtocolStrict, true
	if f.endless() {
		terms.TTL = core.TTLDefault // check says what is wrong
	}
	return terms
}

func (f *permitFlags) sessionTTL() core.TTL { return f.terms().TTL.Under(core.ProtocolStrict) }

// check lists what is wrong with the name and the flags, before any I/O.
func (f *permitFlags) check(name string) []error {
	bad := f.checkClaim(name, f.terms())
	if f.wanted() == core.ProtocolLastWriter {
		bad = append(bad, exit.Usagef("--protocol lastwriter: a semaphore needs create-if-absent, which only strict relies on; leave it out"))
	}
	if f.endless() {
		bad = append(bad, exit.Usagef("--ttl 0: a permit stands on a session, which has a ttl; leave it out"))
	}
	if f.given("capacity") {
		bad = append(bad, checkSide("capacity", f.capacity, core.MaxCapacity))
	} else {
		bad = append(bad, exit.Usagef("permit needs --capacity: capacity x width is how much may be held"))
	}
	bad = append(bad, checkSide("width", f.width, core.MaxWidth))
	if f.weight < 1 || uint64(f.weight) > math.MaxUint32 {
		bad = append(bad, exit.Usagef("--weight %d: from 1 to %d", f.weight, uint32(math.MaxUint32)))
	}
	if f.spare < 0 || uint64(f.spare) > math.MaxUint32 {
		bad = append(bad, exit.Usagef("--spare %d: from 0 to %d", f.spare, uint32(math.MaxUint32)))
	}
	if f.storeLimit < 0 || f.storeLimit > maxLimit {
		bad = append(bad, exit.Usagef("--store-limit %d: from 1 to %d, or 0 to remove it", f.storeLimit, int64(maxLimit)))
	}
	if exit.Usage(bad...) != nil {
		return bad
	}
	return append(bad, f.checkWeight())
}

// checkSide checks one side of the view.
func checkSide(flag string, n, most int) error {
	if n < 1 || n > most {
		return exit.Usagef("--%s %d: from 1 to %d", flag, n, most)
	}
	return nil
}

const maxLimit = core.MaxCapacity * core.MaxWidth // what the largest view has room for

// checkWeight refuses a permit that would wait forever.
func (f *permitFlags) checkWeight() error {
	asked := uint64(f.weight) + uint64(f.spare)
	said := "--weight " + strconv.Itoa(f.weight)
	if f.spare > 0 {
		said += " and --spare " + strconv.Itoa(f.spare)
	}
	switch most := uint64(f.capacity) * uint64(f.width); {
	case asked > most:
		return exit.Usagef("%s: more than capacity x width, which is %d", said, most)
	case f.storeLimit > 0 && asked > uint64(f.storeLimit):
		return exit.Usagef("%s: more than --store-limit %d lets anybody have", said, f.storeLimit)
	}
	return nil
}

// withoutPermit returns the exit for an error of acquiring. If there was no room, its text says how
// full the semaphore is for this caller.
func withoutPermit(full *report.Occupancy, name string, err error) error {
	refused, ok := errors.AsType[*host.Error](err)
	if !ok || !errors.Is(err, host.ErrFull) || refused.Seen == nil {
		return err
	}
	s := refused.Seen
	return &exit.Error{
		Status: exit.StatusNotAcquired, Reason: core.ReasonFull.String(),
		Text: host.Printable(name) + " " + full.WhyFull(s) + ": " + full.Text(s, false) + "; wait for room, or try again later",
	}
}
