package main

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// termFlags are what every command that takes a NAME or a LEASE accepts.
type termFlags struct {
	ttl      time.Duration
	margin   time.Duration
	protocol string
}

func (f *termFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.ttl, "ttl", core.DefaultTTL, "how long the lease lives without a renewal")
	cmd.Flags().DurationVar(&f.margin, "margin", 0, "what the holder gives up early (default TTL/10, less than TTL/2)")
	cmd.Flags().StringVar(&f.protocol, "protocol", "auto", "auto or lastwriter")
}

// check lists what is wrong with name and flags, before any I/O. The core
// judges; checked here is only what it would take for "not said".
func (f *termFlags) check(cmd *cobra.Command, name string) []error {
	return f.checkTerms(cmd, name, f.terms())
}

func (f *termFlags) checkTerms(cmd *cobra.Command, name string, terms host.Terms) (bad []error) {
	if f.protocol != "auto" && f.protocol != core.ProtocolLastWriter.String() {
		bad = append(bad, usagef("--protocol %s: auto or lastwriter", host.Printable(f.protocol)))
	}
	if f.ttl <= 0 {
		bad = append(bad, usagef("--ttl %v: above 0; a lease without expiry needs another protocol than lastwriter", f.ttl))
	}
	if cmd.Flags().Changed("margin") && f.margin <= 0 {
		bad = append(bad, usagef("--margin %v: above 0, and less than half of --ttl", f.margin))
	}
	_, err := core.NewLease(core.Config{
		Protocol: core.ProtocolLastWriter, Name: name,
		TTL: max(0, terms.TTL), Margin: max(0, terms.Margin), AcquireMargin: terms.AcquireMargin, FleetExpire: terms.FleetExpire,
		Seed: [16]byte{1}, // any: this one is judged and thrown away
	})
	return append(bad, err)
}

func (f *termFlags) terms() host.Terms {
	return host.Terms{TTL: f.ttl, Margin: f.margin}
}

// acquireFlags are those of the acquiring commands.
type acquireFlags struct {
	termFlags
	acquireMargin time.Duration
	fleetExpire   string
	wait          time.Duration
	label         string
}

func (f *acquireFlags) add(cmd *cobra.Command) {
	f.termFlags.add(cmd)
	f.addClaim(cmd)
	cmd.Flags().DurationVar(&f.wait, "wait", core.Forever, "the longest to wait for the lease; 0 tries once (default: until it is held)")
	cmd.Flags().Lookup("wait").DefValue = "0s" // not shown
	cmd.Flags().StringVar(&f.label, "label", "", "a word for people, at most 128 bytes; lastwriter does not store it")
}

// addClaim adds what concerns the claim itself.
func (f *acquireFlags) addClaim(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.acquireMargin, "acquire-margin", 0, "the least time between a claim and its verification (0: twice what the claim took; up to TTL/2)")
	cmd.Flags().StringVar(&f.fleetExpire, "fleet-expire", core.DefaultFleetExpire.String(), "by which TTL mops clients on this name judge us, or none")
}

const maxLabel = 128 // bytes

// check lists what is wrong with name and flags, before any I/O.
func (f *acquireFlags) check(cmd *cobra.Command, name string) []error {
	bad := f.checkTerms(cmd, name, f.terms())
	if cmd.Flags().Changed("wait") && f.wait < 0 {
		bad = append(bad, usagef("--wait %v: 0 or more; leave it out to wait until the lease is held", f.wait))
	}
	f.wait = min(f.wait, core.MaxWait) // a century is as good as for ever
	printable := utf8.ValidString(f.label) && strings.IndexFunc(f.label, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	if len(f.label) > maxLabel || !printable {
		bad = append(bad, usagef("--label: at most %d bytes of printable text", maxLabel))
	}
	_, err := f.fleet()
	return append(bad, err)
}

func (f *acquireFlags) fleet() (time.Duration, error) {
	if f.fleetExpire == "none" {
		return core.None, nil
	}
	d, err := time.ParseDuration(f.fleetExpire)
	if err != nil || d <= 0 {
		return 0, usagef("--fleet-expire %s: a duration above 0 such as 88s, or none", host.Printable(f.fleetExpire))
	}
	return d, nil
}

func (f *acquireFlags) terms() host.Terms {
	terms := f.termFlags.terms()
	terms.AcquireMargin = f.acquireMargin
	terms.FleetExpire, _ = f.fleet() // what is no duration, check says; 0 stands for the default
	return terms
}

// lossFlags say what becomes of CMD when the lease is lost.
type lossFlags struct {
	onLoss string
	grace  time.Duration
}

const defaultGrace = 10 * time.Second

func (f *lossFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.onLoss, "on-loss", "terminate", "terminate or continue: what becomes of CMD when the lease is lost")
	cmd.Flags().DurationVar(&f.grace, "grace", defaultGrace, "from SIGTERM to SIGKILL, at most TTL/3 (the default shrinks with the TTL)")
	addStatusFile(cmd)
}

// check settles the grace for a TTL, and lists what is wrong.
func (f *lossFlags) check(cmd *cobra.Command, ttl time.Duration) (bad []error) {
	if f.onLoss != "terminate" && f.onLoss != "continue" {
		bad = append(bad, usagef("--on-loss %s: terminate or continue", host.Printable(f.onLoss)))
	}
	if !cmd.Flags().Changed("grace") {
		f.grace = max(0, min(defaultGrace, ttl/3))
	}
	if f.grace < 0 || f.grace > ttl/3 {
		bad = append(bad, usagef("--grace %v: from 0 to a third of the TTL of %v", f.grace, ttl))
	}
	return bad
}
