//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers"
)

// death is how a holder's end is judged.
type death struct {
	kind   string // of store
	ttl    time.Duration
	lives  time.Duration // from held to SIGKILL
	late   bool          // its waiters come when the TTL is almost over
	alone  bool          // its waiters have a clock that is not the boot's
	expiry core.Expiry
}

const heldNames = 20

// BenchmarkTakeOver is how long a name stays with a dead holder: from when the holder
// sent its last beat, as it says right before its end, until another process holds the
// name. It is the longest of 20 names whose holder, one process, was killed by SIGKILL.
func BenchmarkTakeOver(b *testing.B) {
	for name, d := range map[string]death{
		"boot": {kind: "file", ttl: 2 * time.Second, lives: 1500 * time.Millisecond},
		// The TTL's poll interval is longer than a stamp's unit: a waiter takes one sample of
		// the store's clock, which may be behind by that unit.
		"calibrated": {kind: servers.S3, ttl: 10 * time.Second, lives: 2 * time.Second},
		"observed":   {kind: "file", ttl: 2 * time.Second, lives: time.Second, late: true, alone: true, expiry: core.ExpiryObserved},
	} {
		b.Run(name, func(b *testing.B) {
			var slowest time.Duration
			for b.Loop() {
				slowest = max(slowest, d.takeOver(b))
			}
			b.ReportMetric(float64(slowest), "ns-slowest")
		})
	}
}

func (d *death) terms() host.Terms {
	return host.Terms{Protocol: core.ProtocolStrict, TTL: core.TTL(d.ttl), Expiry: d.expiry}
}

func (d *death) takeOver(b *testing.B) time.Duration {
	at := place(b, d.kind)
	p := holder(b, at, d.terms())
	opts := &host.Options{Memory: "-"}
	if d.alone {
		opts.Clock = ownClock{time.Now()}
	}
	h, err := host.Open(b.Context(), at, opts)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(context.Background())
	var all sync.WaitGroup
	var held [heldNames]int64
	begin := func() {
		for i := range held {
			all.Go(func() {
				if _, err := h.Acquire(b.Context(), heldName(i), &host.AcquireOptions{Terms: d.terms()}); err != nil {
					b.Error(err)
				}
				held[i] = bootTime()
			})
		}
	}
	if !d.late {
		begin()
	}
	<-time.After(d.lives)
	signs := p.lastSigns(b)
	p.kill()
	if d.late {
		oldest := slices.Min(signs[:])
		<-time.After(time.Duration(oldest-bootTime()) + d.ttl - d.ttl/50)
		begin()
	}
	all.Wait()
	var slowest time.Duration
	for i := range held {
		slowest = max(slowest, time.Duration(held[i]-signs[i]))
	}
	return slowest
}

// ownClock is a clock of this process alone: a host that has it judges by what it sees.
type ownClock struct{ start time.Time }

func (c ownClock) Now() core.Instant {
	return core.Instant{Mono: int64(time.Since(c.start)), Wall: time.Now().UnixNano()}
}

func bootTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

func heldName(i int) string { return fmt.Sprint("held/", i) }

const holdEnv = "MOPSLOCK_BENCH_HOLD"

// holding is what the process that holds the names is told.
type holding struct {
	URL   string
	Terms host.Terms
}

// held is such a process.
type held struct {
	kill   func()
	stdin  io.WriteCloser // it ends with us
	stdout *bufio.Reader
}

// holder starts such a process, and returns when it holds the names.
func holder(b *testing.B, at string, terms host.Terms) *held {
	told, err := json.Marshal(holding{at, terms})
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	cmd.Env = append(os.Environ(), holdEnv+"="+string(told))
	cmd.Stderr = os.Stderr
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(err, errIn, errOut, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	p := &held{stdin: stdin, stdout: bufio.NewReader(stdout)}
	p.kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, as it should be
		_ = stdin.Close()
	})
	b.Cleanup(p.kill)
	if line, _ := p.stdout.ReadString('\n'); line != "held\n" {
		more, _ := io.ReadAll(p.stdout)
		b.Fatalf("the holder said %s%s", line, more)
	}
	return p
}

// lastSigns is when the process sent the last good beat of each name, by the boot's
// clock. It is killed right after: if it sends another beat in between, the names are
// only held for longer than it says.
func (p *held) lastSigns(b *testing.B) (signs [heldNames]int64) {
	if _, err := fmt.Fprintln(p.stdin, "when"); err != nil {
		b.Fatal(err)
	}
	for i := range signs {
		if _, err := fmt.Fscanln(p.stdout, &signs[i]); err != nil {
			b.Fatal(err)
		}
	}
	return signs
}

// TestHolder is what holder starts; by itself it does nothing.
func TestHolder(t *testing.T) {
	told := os.Getenv(holdEnv)
	if told == "" {
		return
	}
	var h holding
	if err := json.Unmarshal([]byte(told), &h); err != nil {
		t.Fatal(err)
	}
	opened, err := host.Open(t.Context(), h.URL, &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	h.Terms.Margin = h.Terms.TTL.Duration() / 10
	var leases [heldNames]*host.Lease
	for i := range leases {
		if leases[i], err = opened.Acquire(t.Context(), heldName(i), &host.AcquireOptions{Terms: h.Terms}); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("held")
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() { // until it is killed, or its parent is
		for _, l := range leases {
			fmt.Println(bootTime() + int64(l.Left()+h.Terms.Margin-h.Terms.TTL.Duration()))
		}
	}
	_ = opened.Close(t.Context())
}
