// Command fence shows what a fencing token is for: the holder of a strict lease
// writes a report, and the store itself refuses a writer that lost the lease
// without noticing.
//
//	go run ./tests/examples/fence                          # in a fresh directory
//	go run ./tests/examples/fence file:///var/tmp/reports  # or any store with create-if-absent
//
// Both actors are in this one process, each with a Host of its own. It shows
// no expiry: it breaks the lease, so that it does not have to wait.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store"
)

const (
	name   = "nightly-report"         // the lease's
	report = "nightly-report/report"  // its holder writes this again and again
	result = "nightly-report/summary" // and this once
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	var url string
	if len(args) > 0 {
		url = args[0]
	} else {
		dir, err := os.MkdirTemp("", "mopslock-fence-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		url = "file://" + filepath.ToSlash(dir)
	}
	objects, err := store.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = objects.Close() }() // nothing is lost with its error
	guarded, err := fence.Open(objects, report)
	if err != nil {
		return err
	}

	// A takes the lease and writes.
	a, err := take(ctx, url)
	if err != nil {
		return err
	}
	defer a.Close()
	fmt.Fprintf(out, "A holds %s with token %d\n", name, a.tenure.Token)
	slot, err := guarded.Write(ctx, a.tenure, []byte("by A: 100 rows"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A has written slot %d: %s\n", slot.Number, slot.Body)

	// A stalls just before its next write. An operator breaks its lease.
	if _, err := a.host.Break(ctx, name, &host.BreakOptions{Why: "A is stuck", Now: true}); err != nil {
		return err
	}
	fmt.Fprintln(out, "A stalls; its lease is broken")

	// B takes over. It reads before it writes, so it raises the fence first:
	// from here on nothing of A's can land.
	b, err := take(ctx, url)
	if err != nil {
		return err
	}
	defer b.Close()
	left, err := guarded.Raise(ctx, b.tenure)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "B holds %s with token %d, and finds: %s\n", name, b.tenure.Token, left.Body)
	if slot, err = guarded.Write(ctx, b.tenure, append(left.Body, "; by B: 200 more"...)); err != nil {
		return err
	}
	fmt.Fprintf(out, "B has written slot %d: %s\n", slot.Number, slot.Body)

	// A goes on where it stopped, without checking its lease.
	_, err = guarded.Write(ctx, a.tenure, []byte("by A: 300 rows"))
	if !errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("a stale writer was not refused: %w", err)
	}
	fmt.Fprintln(out, "A is refused:", err)

	// A result is another matter: the first writer wins, and all read what it wrote.
	for _, actor := range []*actor{b, a} {
		summary, won, err := fence.CreateOnce(ctx, objects, result, actor.tenure, fmt.Appendf(nil, "300 rows, said with token %d", actor.tenure.Token))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "the summary is %q (written just now: %v)\n", summary.Body, won)
	}
	return nil
}

// actor is one holder, with a Host of its own.
type actor struct {
	host   *host.Host
	tenure fence.Tenure
}

func take(ctx context.Context, url string) (*actor, error) {
	h, err := host.Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	p := &actor{host: h}
	lease, err := h.Acquire(ctx, name, &host.AcquireOptions{
		Terms: host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(10 * time.Second)},
		Wait:  time.Minute,
	})
	if err != nil {
		p.Close()
		return nil, err
	}
	p.tenure = fence.Of(lease)
	return p, nil
}

// Close releases what is held; what cannot be released in time expires.
func (p *actor) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.host.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
