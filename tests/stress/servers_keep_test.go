//go:build linux

package stress

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/trace"
)

// The test binary, started with keepMark, keeps leases until it has lost them all.
const keepMark = "stress-keep-helper"

func init() {
	if len(os.Args) > 1 && os.Args[1] == keepMark {
		os.Exit(keepHelper(os.Args[2:]))
	}
}

// keepHelper URL NAME COUNT TTL LOG TRACE: COUNT leases NAME/0, NAME/1, …, on a session
// if there are more than one. LOG.0, LOG.1, … say until when each was believed in, by
// everybody's CLOCK_MONOTONIC, whenever that changed, and then when and why it was lost.
func keepHelper(args []string) int {
	if len(args) != 6 {
		return fail(fmt.Errorf("bad arguments %q", args))
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return fail(err)
	}
	ttl, err := time.ParseDuration(args[3])
	if err != nil {
		return fail(err)
	}
	file, err := os.Create(args[5])
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*gateLimit)
	defer cancel()
	recorder := trace.NewRecorder(host.Native{}, file)
	h, err := host.Open(ctx, args[0], &host.Options{Engine: recorder, Memory: "-"})
	if err != nil {
		return fail(err)
	}
	k := &keepers{log: args[4], until: make([]time.Duration, count)}
	for i := range count {
		terms := host.Terms{Protocol: core.ProtocolStrict, TTL: ttl, Session: count > 1}
		lease, err := h.Acquire(ctx, fmt.Sprintf("%s/%d", args[1], i), &host.AcquireOptions{Terms: terms})
		if err != nil {
			return fail(err)
		}
		k.leases = append(k.leases, lease)
	}
	k.watch(ctx)
	err = errors.Join(ctx.Err(), h.Close(ctx), recorder.Close(ctx), file.Close())
	if err != nil {
		return fail(err)
	}
	return 0
}

// keepers are the leases of one process, nil once lost.
type keepers struct {
	log    string
	leases []*host.Lease
	until  []time.Duration
}

func (k *keepers) watch(ctx context.Context) {
	for left := len(k.leases); left > 0 && ctx.Err() == nil; pause(ctx, 2*time.Millisecond) {
		for i, lease := range k.leases {
			if lease != nil && k.look(i, lease) {
				k.leases[i] = nil
				left--
			}
		}
	}
}

// look notes what is new about a lease, and reports whether it is lost.
func (k *keepers) look(i int, lease *host.Lease) bool {
	// The clock before Left: what is written is not after the true deadline.
	now := monotonic()
	left := lease.Left()
	if err := lease.Err(); err != nil {
		why := "lost"
		if lost, ok := errors.AsType[*host.Error](err); ok && lost.Kind == host.Lost {
			why += ":" + lost.Reason.String()
		}
		k.note(i, why, monotonic())
		return true
	}
	if until := now + left; until > k.until[i]+time.Millisecond {
		k.until[i] = until
		k.note(i, "until", until)
	}
	return false
}

func (k *keepers) note(i int, what string, at time.Duration) {
	if err := appendLine(fmt.Sprintf("%s.%d", k.log, i), what, os.Getpid(), at); err != nil {
		os.Exit(fail(err))
	}
}
