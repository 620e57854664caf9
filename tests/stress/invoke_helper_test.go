//go:build linux || darwin

package stress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// The test binary, started with invokeMark, is an orchestrator, a launcher, a job,
// or a process full of waiters.
const invokeMark = "stress-invoke-helper"

func init() {
	if len(os.Args) > 1 && os.Args[1] == invokeMark {
		os.Exit(invokeHelper(os.Args[2:]))
	}
}

func invokeHelper(args []string) int {
	switch {
	case len(args) == 3 && args[0] == "job": // job LOG GATE
		return invokeJob(args[1], args[2])
	case len(args) >= 4 && args[0] == "launch": // launch LOG NAME REMOTE...: start REMOTE in a session of its own and wait
		return launchRemote(args[1], args[2:])
	case len(args) == 3 && args[0] == "park": // park LOG LEASE: keep the lease for a remote that starts late
		return park(args[1], args[2])
	case len(args) == 5 && args[0] == "orchestrate": // orchestrate URL PROTOCOL DIR BINARY
		return restartOrchestrate(args[1], args[2], args[3], args[4])
	case len(args) >= 3 && args[0] == "slow": // slow DIR REMOTE...: a launcher that is slow at times
		return slowLauncher(args[1], args[2:])
	case len(args) == 3 && args[0] == "work": // work DIR NAME
		return shortWork(args[1], args[2])
	case len(args) == 6 && args[0] == "swarm": // swarm URL PROTOCOL WORK WORKLOG REPORT
		return swarm(args[1], args[2], args[3], args[4], args[5])
	}
	return fail(fmt.Errorf("bad arguments %q", args))
}

// gateLimit bounds how long anybody stands at a gate: what a failed test leaves
// behind ends by itself.
const gateLimit = time.Minute

// invokeJob works until the file GATE is there, and prints a result like no other.
func invokeJob(log, gate string) int {
	if err := appendLine(log, "begin", os.Getpid(), monotonic()); err != nil {
		return fail(err)
	}
	for end := time.Now().Add(gateLimit); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(gate); err == nil {
			break
		}
		if time.Now().After(end) {
			return fail(errors.New("nobody opens " + gate))
		}
	}
	if err := appendLine(log, "end", os.Getpid(), monotonic()); err != nil {
		return fail(err)
	}
	fmt.Printf("worked out by process %d\n", os.Getpid())
	return 0
}

// launchRemote is a launcher. Its remote outlives it.
func launchRemote(log string, argv []string) int {
	remote := exec.Command(argv[0], argv[1:]...)
	remote.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	remote.Stderr = os.Stderr
	if err := remote.Start(); err != nil {
		return fail(err)
	}
	if err := appendLine(log, "launcher", os.Getpid(), monotonic()); err != nil {
		return fail(err)
	}
	if err := appendLine(log, "remote", remote.Process.Pid, monotonic()); err != nil {
		return fail(err)
	}
	var ended *exec.ExitError
	if err := remote.Wait(); err != nil && !errors.As(err, &ended) {
		return fail(err)
	}
	return max(0, remote.ProcessState.ExitCode())
}

// park is a launcher that never comes to start its remote. It waits to be killed.
func park(log, lease string) int {
	if err := os.WriteFile(lease, []byte(os.Getenv("MOPSLOCK_LEASE")), 0o600); err != nil {
		return fail(err)
	}
	if err := appendLine(log, "launcher", os.Getpid(), monotonic()); err != nil { // after it: the lease is whole
		return fail(err)
	}
	time.Sleep(gateLimit)
	return fail(errors.New("nobody has killed the launcher"))
}

// swarmName is what a swarm invokes, and swarmWaiters how many do in a process.
const (
	swarmName    = "stress/swarm"
	swarmWaiters = 25
)

// waited is what one waiter saw: when it asked and when it had the result, by
// the clock that all processes share.
type waited struct {
	Asked, Got time.Duration
	Sum        string // of the result's bytes
	Err        string
}

// swarm invokes one name from many goroutines, which begin within the first half
// of the work. The work is done by whichever is told to launch it.
func swarm(url, protocol, workText, workLog, report string) int {
	signal.Ignore(syscall.SIGTERM)
	work, err := time.ParseDuration(workText)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), work+gateLimit)
	defer cancel()
	h, err := host.Open(ctx, url, &host.Options{Memory: "-"})
	if err != nil {
		return fail(err)
	}
	terms := host.Terms{Protocol: core.ProtocolStrict, TTL: 10 * time.Second}
	if protocol == core.ProtocolLastWriter.String() {
		terms.Protocol, terms.AcquireMargin = core.ProtocolLastWriter, 250*time.Millisecond
	}
	job := func(ctx context.Context, w *host.Work) error {
		if err := appendLine(workLog, "begin", os.Getpid(), monotonic()); err != nil {
			return err
		}
		pause(ctx, work)
		w.Return(host.Bytes([]byte("worked out by process " + strconv.Itoa(os.Getpid()))))
		return appendLine(workLog, "end", os.Getpid(), monotonic())
	}
	all := make([]waited, swarmWaiters)
	var waiters sync.WaitGroup
	for i := range all {
		waiters.Go(func() {
			if i > 0 { // the first ones of all processes begin together
				pause(ctx, rand.N(work/2)) //nolint:gosec // no secret
			}
			all[i] = invokeOnce(ctx, h, job, &host.InvokeOptions{Terms: terms})
		})
	}
	waiters.Wait()
	closing, cancelClosing := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancelClosing()
	if err := h.Close(closing); err != nil {
		return fail(err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fail(err)
	}
	if err := os.WriteFile(report, text, 0o600); err != nil {
		return fail(err)
	}
	return 0
}

func invokeOnce(ctx context.Context, h *host.Host, job host.Launch, opts *host.InvokeOptions) (w waited) {
	w.Asked = monotonic()
	result, err := h.Invoke(ctx, swarmName, job, opts)
	w.Got = monotonic()
	if err != nil {
		w.Err = err.Error()
		return w
	}
	body, err := result.Bytes(ctx, 1<<10)
	if err != nil {
		w.Err = err.Error()
		return w
	}
	sum := sha256.Sum256(body)
	w.Sum = hex.EncodeToString(sum[:])
	return w
}
