package main

import (
	"cmp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/host"
)

// termFlags are what every command that takes a NAME or a LEASE accepts.
type termFlags struct {
	ttl      time.Duration
	margin   time.Duration
	protocol string
	given    func(flag string) bool
}

func (f *termFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.given = flags.Changed
	flags.DurationVar(&f.ttl, "ttl", 0, "how long the lease lives without a renewal (default 60s; 88s under bridge and lastwriter); under strict, 0 is until it is released or broken")
	flags.DurationVar(&f.margin, "margin", 0, "what the holder gives up early (default TTL/10, less than TTL/2)")
	flags.StringVar(&f.protocol, "protocol", auto, "auto, strict, bridge or lastwriter; auto uses bridge if NAME/lock.json exists, and strict otherwise; on a store without create-if-absent it uses lastwriter, and warns; say bridge from the start if mops shares the NAME")
	names := []string{auto, core.ProtocolStrict.String(), core.ProtocolBridge.String(), core.ProtocolLastWriter.String()}
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// auto leaves the protocol to the store and the name.
const auto = "auto"

// wanted is the protocol of --protocol. 0 is auto, or a word that check refuses.
func (f *termFlags) wanted() core.Protocol {
	switch f.protocol {
	case core.ProtocolStrict.String():
		return core.ProtocolStrict
	case core.ProtocolBridge.String():
		return core.ProtocolBridge
	case core.ProtocolLastWriter.String():
		return core.ProtocolLastWriter
	}
	return 0
}

// endless reports whether a lease without an end was asked for.
func (f *termFlags) endless() bool { return f.terms().TTL == core.TTLEndless }

// check lists what is wrong with the name and the flags, before any I/O. The
// core judges them; only values that it would take for unset are judged here.
func (f *termFlags) check(name string) []error { return f.checkTerms(name, f.terms()) }

func (f *termFlags) checkTerms(name string, terms host.Terms) (bad []error) {
	if f.protocol != auto && f.wanted() == 0 {
		bad = append(bad, exit.Usagef("--protocol %s: auto, strict, bridge or lastwriter", host.Printable(f.protocol)))
	}
	if f.ttl < 0 {
		bad = append(bad, exit.Usagef("--ttl %v: above 0, or 0 for a lease until it is released or broken", f.ttl))
	}
	if f.given("margin") && f.margin <= 0 {
		bad = append(bad, exit.Usagef("--margin %v: above 0, and less than half of --ttl", f.margin))
	}
	if terms.TTL == core.TTLEndless {
		switch core.MayBeEndless(core.MachineLease, cmp.Or(terms.Protocol, core.ProtocolStrict), terms.Session) {
		case core.EndlessNever:
			bad = append(bad, exit.Usagef("--ttl 0: only strict has leases without an expiry"))
		case core.EndlessOnSession:
			bad = append(bad, exit.Usagef("--ttl 0: a lease on a session has the session's ttl; leave out one of them"))
		}
	}
	if terms.Session && terms.Protocol != 0 && terms.Protocol != core.ProtocolStrict {
		bad = append(bad, exit.Usagef("--session: only strict has sessions"))
	}
	return append(bad, judged(name, terms))
}

// judged returns why the core refuses terms, or nil. Under auto both protocols
// must refuse them: the store has not decided between the two yet.
func judged(name string, terms host.Terms) error {
	if terms.Protocol != 0 {
		return judgedUnder(terms.Protocol, name, terms)
	}
	err := judgedUnder(core.ProtocolStrict, name, terms)
	if err != nil && judgedUnder(core.ProtocolLastWriter, name, terms) == nil {
		return nil
	}
	return err
}

func judgedUnder(protocol core.Protocol, name string, terms host.Terms) error {
	ttl := terms.TTL
	if ttl == core.TTLEndless && core.MayBeEndless(core.MachineLease, protocol, false) != core.EndlessAllowed {
		ttl = core.TTLDefault // said already
	}
	_, err := machines.New(core.Config{
		Machine: core.MachineLease,
		Terms: core.Terms{
			Protocol: protocol, Name: name, TTL: ttl, Margin: max(0, terms.Margin), AcquireMargin: terms.AcquireMargin,
			FleetExpire: terms.FleetExpire,
		},
		Seed: [16]byte{1},
	})
	return err
}

func (f *termFlags) terms() host.Terms {
	terms := host.Terms{Protocol: f.wanted(), Margin: f.margin}
	if f.given("ttl") && f.ttl >= 0 { // check says what is wrong with one below 0
		terms.TTL = core.TTLOf(f.ttl)
	}
	return terms
}

// longestTTL is the longest TTL that the lease may turn out to have, or 0 for one without an end.
// It is also 0 for one that check refuses.
func (f *termFlags) longestTTL() time.Duration {
	if f.ttl < 0 {
		return 0
	}
	return f.terms().TTL.Under(cmp.Or(f.wanted(), core.ProtocolLastWriter)).Duration()
}

// addMemoFailures adds --memo-failures to invoke, remote and once.
func addMemoFailures(cmd *cobra.Command, memo *bool) {
	cmd.Flags().BoolVar(memo, "memo-failures", false, "keep a failure: from then on its status and the last 4 KiB of its stderr are the answer to every caller")
}

// checkResultName refuses a name that cannot have a result.
func checkResultName(name string) error {
	if name == "lock" || strings.HasSuffix(name, "/lock") {
		return exit.Usagef("name %s: its last segment must not be lock: the result would lie in a mops memo; choose another", host.Printable(name))
	}
	return nil
}

// acquireFlags are those of the acquiring commands.
type acquireFlags struct {
	termFlags
	acquireMargin time.Duration
	fleetExpire   string
	wait          time.Duration
	label         string
	session       bool
}

func (f *acquireFlags) add(cmd *cobra.Command) {
	f.termFlags.add(cmd)
	f.addClaim(cmd)
	cmd.Flags().DurationVar(&f.wait, "wait", core.Forever, "the longest to wait for the lease; 0 tries once (default: until it is held)")
	cmd.Flags().Lookup("wait").DefValue = "0s" // not shown
	cmd.Flags().StringVar(&f.label, "label", "", "a word for people, shown by status: at most 128 bytes; lastwriter does not store it")
	cmd.Flags().BoolVar(&f.session, "session", false, "keep the lease by a session of this process (strict)")
}

// addClaim adds what concerns the claim itself.
func (f *acquireFlags) addClaim(cmd *cobra.Command) {
	addMetricsFile(cmd)
	cmd.Flags().DurationVar(&f.acquireMargin, "acquire-margin", 0, "under bridge and lastwriter, the least time between a claim and its verification (0: twice what the claim took, and 50ms at least after waiting; up to TTL/2)")
	cmd.Flags().StringVar(&f.fleetExpire, "fleet-expire", core.DefaultFleetExpire.String(), "under bridge and lastwriter, by which TTL mops clients on this name judge us, or none")
}

// check lists what is wrong with the name and the flags, before any I/O.
func (f *acquireFlags) check(name string) []error { return f.checkClaim(name, f.terms()) }

func (f *acquireFlags) checkClaim(name string, terms host.Terms) []error {
	bad := f.checkTerms(name, terms)
	if f.given("wait") && f.wait < 0 {
		bad = append(bad, exit.Usagef("--wait %v: 0 or more; leave it out to wait until the lease is held", f.wait))
	}
	f.wait = min(f.wait, core.MaxWait) // a century is as good as forever
	printable := utf8.ValidString(f.label) && strings.IndexFunc(f.label, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if len(f.label) > core.MaxLabel || !printable {
		bad = append(bad, exit.Usagef("--label: at most %d bytes of printable text", core.MaxLabel))
	}
	_, err := f.fleet()
	return append(bad, err)
}

func (f *acquireFlags) fleet() (core.TTL, error) {
	if f.fleetExpire == "none" {
		return core.TTLEndless, nil
	}
	d, err := time.ParseDuration(f.fleetExpire)
	if err != nil || d <= 0 {
		return 0, exit.Usagef("--fleet-expire %s: a duration above 0 such as 88s, or none", host.Printable(f.fleetExpire))
	}
	return core.TTL(d), nil
}

func (f *acquireFlags) terms() host.Terms {
	terms := f.termFlags.terms()
	terms.AcquireMargin, terms.Label, terms.Session = f.acquireMargin, f.label, f.session
	terms.FleetExpire, _ = f.fleet() // check reports a bad one; 0 stands for the default
	return terms
}

// lossFlags say what becomes of CMD when the lease is lost.
type lossFlags struct {
	onLoss string
	grace  time.Duration
	given  func(flag string) bool
}

const defaultGrace = 10 * time.Second

func (f *lossFlags) add(cmd *cobra.Command) {
	f.given = cmd.Flags().Changed
	cmd.Flags().StringVar(&f.onLoss, "on-loss", "terminate", "terminate or continue: what becomes of CMD when the lease is lost")
	cmd.Flags().DurationVar(&f.grace, "grace", defaultGrace, "from SIGTERM to SIGKILL, at most TTL/3 (the default shrinks with the TTL)")
	addStatusFile(cmd)
}

// mayContinue reports whether CMD may run on after Ctrl-Z and fg: not after a loss that ends it.
func (f *lossFlags) mayContinue(lease heldLease) bool {
	return lease.Err() == nil || f.continues()
}

// continues reports whether a loss does not end CMD.
func (f *lossFlags) continues() bool { return f.onLoss == "continue" }

// check lists what is wrong with the flags for a lease of this TTL or a shorter
// one; 0 or less is no TTL.
func (f *lossFlags) check(ttl time.Duration) (bad []error) {
	if f.onLoss != "terminate" && f.onLoss != "continue" {
		bad = append(bad, exit.Usagef("--on-loss %s: terminate or continue", host.Printable(f.onLoss)))
	}
	if f.grace < 0 {
		bad = append(bad, exit.Usagef("--grace %v: from 0 to a third of the TTL", f.grace))
	} else if err := f.settle(ttl); err != nil {
		bad = append(bad, err)
	}
	return bad
}

// settle fits the grace to the TTL of the lease. The default shrinks; a longer one
// that was given is refused.
func (f *lossFlags) settle(ttl time.Duration) error {
	switch {
	case ttl <= 0:
	case !f.given("grace"):
		f.grace = min(defaultGrace, ttl/3)
	case f.grace > ttl/3:
		return exit.Usagef("--grace %v: from 0 to a third of the TTL of %v", f.grace, ttl)
	}
	return nil
}
