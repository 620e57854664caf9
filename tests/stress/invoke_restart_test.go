//go:build linux || darwin

package stress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	restartJobs = 20
	restartTTL  = 2 * time.Second
	// restartMargin covers what a request takes under lastwriter on a busy machine.
	restartMargin = "500ms"
)

// TestOrchestratorRestarted: an orchestrator of twenty jobs is killed at random
// moments, with its `invoke`s, and started again until it has all results. Some
// launchers are slow to start their remotes, so that these come late, for leases
// that have expired or are another's. Each job runs exactly once.
//
//	orchestrator   ─ SIGKILL  ──── SIGKILL  ─ SIGKILL  ──────────────── all results
//	quick remote     join ─ job ─────── stores
//	slow remote                          · · · · · · join: in time, or late and nothing runs
func TestOrchestratorRestarted(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string, d time.Duration, _ bool) {
		rounds, kills, launches, most := 0, 0, 0, 0
		for end := time.Now().Add(d); rounds == 0 || time.Now().Add(4*restartTTL).Before(end); rounds++ {
			r := &restarts{t: t, url: store(t), dir: t.TempDir(), protocol: protocol}
			r.play(min(d/2, 2*restartTTL))
			r.judge()
			kills += r.kills
			launches += len(r.lines("launched"))
			most = max(most, r.kills)
			if t.Failed() {
				return
			}
		}
		figures(t, "%d rounds of %d jobs, TTL %v: %d kills (at most %d in one), %d launches, %d executions", rounds, restartJobs,
			restartTTL, kills, most, launches, rounds*restartJobs)
	})
}

// restarts is one round.
type restarts struct {
	t                  *testing.T
	url, dir, protocol string
	kills              int
}

// play kills orchestrators for a while, and lets the last one come to its end.
func (r *restarts) play(d time.Duration) {
	log, err := os.Create(filepath.Join(r.dir, "stderr"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	for end := time.Now().Add(d); ; r.kills++ {
		life := rand.N(restartTTL / 2) //nolint:gosec // no secret
		if time.Now().Add(life).After(end) {
			life = time.Minute
		}
		cmd := exec.Command(self, invokeMark, "orchestrate", r.url, r.protocol, r.dir, binary)
		cmd.Env, cmd.Stderr = cleanEnvironment(), log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				r.t.Fatalf("an orchestrator failed: %v: %s", err, r.said())
			}
			return
		case <-time.After(life):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // itself and its invokes; launchers and remotes live on
			<-ended
		}
		if life == time.Minute {
			r.t.Fatalf("the last orchestrator has not ended within %v: %s", life, r.said())
		}
	}
}

func (r *restarts) said() string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "stderr"))
	return string(text)
}

// lines are the journal's of one kind.
func (r *restarts) lines(what string) (lines []string) {
	text, err := os.ReadFile(filepath.Join(r.dir, "journal"))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what+" "); ok && strings.HasSuffix(line, "\n") {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

// judge waits for the last launcher, and with it for the last remote that might
// still run something.
func (r *restarts) judge() {
	defer func() {
		if r.t.Failed() {
			r.t.Log(r.said())
		}
	}()
	eventually(r.t, gateLimit, "the launchers of dead orchestrators have ended", func() bool {
		return len(r.lines("launched")) == len(r.lines("left"))
	})
	ran := map[string]string{} // the process, by the job
	for _, line := range r.lines("ran") {
		name, pid, _ := strings.Cut(line, " ")
		if ran[name] != "" {
			r.t.Errorf("%s was run by process %s and by process %s", name, ran[name], pid)
		}
		ran[name] = pid
	}
	for n := range restartJobs {
		name := restartName(n)
		text, err := os.ReadFile(filepath.Join(r.dir, filepath.Base(name)))
		if want := "worked out by process " + ran[name] + "\n"; err != nil || string(text) != want {
			r.t.Errorf("%s: its result is %q (%v), and it was %s", name, text, err, want)
		}
	}
}

func restartName(n int) string { return fmt.Sprintf("restart/%02d", n) }

// restartOrchestrate is one life of the orchestrator: all jobs at once. A job
// whose result is there is asked for again all the same.
func restartOrchestrate(url, protocol, dir, binary string) int {
	failures := make([]error, restartJobs)
	var calls sync.WaitGroup
	for n := range failures {
		calls.Go(func() {
			name := restartName(n)
			cmd := exec.Command(binary, "invoke", "--store", url, "--protocol", protocol, "--ttl", restartTTL.String(),
				"--acquire-margin", restartMargin,
				"--on-loss", "continue", // judge waits for the launcher's own end, also where a busy machine loses the lease
				name, "--", os.Args[0], invokeMark, "slow", dir,
				binary, "remote", "--acquire-margin", restartMargin, name, "--", os.Args[0], invokeMark, "work", dir, name)
			cmd.Stderr = os.Stderr
			result, err := cmd.Output()
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), result, 0o600)
			}
			if err != nil {
				failures[n] = fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	calls.Wait()
	if err := errors.Join(failures...); err != nil {
		return fail(err)
	}
	return 0
}

// slowLauncher starts its remote at once, or takes up to two TTLs for it.
func slowLauncher(dir string, argv []string) int {
	if err := noteRestart(dir, "launched", os.Getpid()); err != nil {
		return fail(err)
	}
	if rand.IntN(4) == 0 { //nolint:gosec // no secret
		time.Sleep(rand.N(2 * restartTTL)) //nolint:gosec // no secret
	}
	remote := exec.Command(argv[0], argv[1:]...)
	remote.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	remote.Stderr = os.Stderr
	err := remote.Run()
	if err := noteRestart(dir, "left", os.Getpid()); err != nil {
		return fail(err)
	}
	if err != nil {
		return fail(fmt.Errorf("the remote: %w", err))
	}
	return 0
}

// shortWork is a job.
func shortWork(dir, name string) int {
	if err := noteRestart(dir, "ran "+name, os.Getpid()); err != nil {
		return fail(err)
	}
	time.Sleep(rand.N(restartTTL / 2)) //nolint:gosec // no secret
	fmt.Printf("worked out by process %d\n", os.Getpid())
	return 0
}

// noteRestart writes one line at the end of the round's journal.
func noteRestart(dir, what string, pid int) error {
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(what + " " + strconv.Itoa(pid) + "\n")
	return errors.Join(err, f.Close())
}
