//go:build linux || darwin

package stress

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

const (
	invokeJobs    = 6
	orchestrators = 2
	workFailed    = 70 // invoke's status when its work has failed
)

// invokeTTLs are long enough for lastwriter's margin to cover two requests.
var invokeTTLs = map[string]time.Duration{"strict": 2 * time.Second, "lastwriter": 3 * time.Second}

// TestOrchestratorRestarted: two orchestrators want the results of the same jobs. The test
// kills them at random, with their `invoke`s, and starts them again; launchers and remotes
// live on. Some launchers start their remotes late, when the lease has expired or is
// another's. Some launchers kill their remotes.
//
//	orchestrator   ─ SIGKILL  ──── SIGKILL  ─ SIGKILL  ──────────────── all results
//	quick remote     join ─ job ─────── stores
//	slow remote                          · · · · · · join: in time, or late and nothing runs
//
// Both orchestrators get the same result of a job, from a process that has run it. Under
// strict no job runs again unless the remote that ran it before was killed or lost its lease.
func TestOrchestratorRestarted(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string) {
		log, url, d := newLedger(t), store(t), duration(t)
		var all sync.WaitGroup
		kills := make([]int, orchestrators)
		for i := range orchestrators {
			all.Go(func() {
				argv := helper("orchestrate", url, protocol, string(log), binary)
				for end := time.Now().Add(d); time.Now().Before(end) && !t.Failed(); {
					p := start(t, nil, argv...)
					select {
					case <-p.done:
						p.ended(t, 0)
						log.note("ended", p.Process.Pid)
					case <-time.After(rand.N(invokeTTLs[protocol] / 2)):
						kills[i]++
						_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) // itself and its invokes
						<-p.done
					}
				}
				p := start(t, nil, argv...)
				p.ended(t, 0)
				log.note("ended", p.Process.Pid)
			})
		}
		all.Wait()
		eventually(t, "the launchers of dead orchestrators have ended", func() bool {
			return len(log.read(t, "launched")) == len(log.read(t, "left"))
		})
		again := judgeJobs(t, log, protocol)
		figures(t, "%d jobs, kills %v, %d launches, %d executions more than jobs", invokeJobs, kills, len(log.read(t, "launched")), again)
	})
}

// judgeJobs returns how often jobs have run again.
func judgeJobs(t *testing.T, log ledger, protocol string) (again int) {
	for n := range invokeJobs {
		name, ran, unlucky := jobName(n), map[string]bool{}, 0
		for _, e := range log.read(t, "ran") {
			if e.words[0] == name {
				ran[result(e.pid)] = true
			}
		}
		for _, e := range log.read(t, "left") {
			if e.words[0] == name && e.words[1] != "0" {
				unlucky++
			}
		}
		got, answers := map[string]int{}, 0
		for _, e := range log.read(t, "got") {
			if e.words[0] == name {
				answers++
				got[e.words[1]+" "+e.words[2]]++
			}
		}
		for text := range got {
			if len(got) > 1 || !ran[text] {
				t.Errorf("%s: its results are %v, and it was run by %v", name, got, ran)
			}
		}
		if ended := len(log.read(t, "ended")); answers < ended {
			t.Errorf("%s: %d results for %d orchestrators that have ended well", name, answers, ended)
		}
		if again += len(ran) - 1; protocol == "strict" && len(ran) > 1+unlucky {
			t.Errorf("%s has run %d times, and %d remotes failed", name, len(ran), unlucky)
		}
	}
	return again
}

func jobName(n int) string { return fmt.Sprintf("restart/%02d", n) }

func result(pid int) string { return fmt.Sprintf("process %d", pid) }

// orchestrate URL PROTOCOL LEDGER BINARY is one run of an orchestrator. It asks for all
// jobs at once, also for those whose results are there already.
func orchestrate(args []string) error {
	url, protocol, log, binary := args[0], args[1], ledger(args[2]), args[3]
	var calls sync.WaitGroup
	failures := make([]error, invokeJobs)
	for n := range invokeJobs {
		calls.Go(func() {
			name, ttl := jobName(n), invokeTTLs[protocol]
			// With --on-loss continue, invoke waits for its launcher's end even if a busy machine loses the lease.
			words := []string{"invoke", "--store", url, "--protocol", protocol, "--ttl", ttl.String(), "--on-loss", "continue"}
			if protocol == "lastwriter" {
				words = append(words, "--acquire-margin", (ttl / 2).String())
			}
			words = append(words, name, "--", os.Args[0], helperMark, "launch", string(log), name, ttl.String(), binary)
			for {
				cmd := exec.Command(binary, words...)
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == workFailed {
					continue // because its remote was killed
				}
				if failures[n] = err; err == nil {
					log.note("got", name, strings.TrimSpace(string(out)))
				}
				return
			}
		})
	}
	calls.Wait()
	return errors.Join(failures...)
}

// launch LEDGER NAME TTL BINARY is a launcher. It starts its remote at once or after
// up to two TTLs, and kills one remote in eight.
func launch(args []string) error {
	log, name, binary := ledger(args[0]), args[1], args[3]
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	log.note("launched", name)
	if rand.IntN(4) == 0 {
		time.Sleep(rand.N(2 * ttl))
	}
	remote := exec.Command(binary, "remote", name, "--", os.Args[0], helperMark, "work", string(log), name, (ttl / 2).String())
	remote.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	remote.Stderr = os.Stderr
	if err := remote.Start(); err != nil {
		return err
	}
	if rand.IntN(8) == 0 {
		time.AfterFunc(rand.N(ttl), func() { _ = remote.Process.Kill() })
	}
	err = remote.Wait()
	log.note("left", name, remote.ProcessState.ExitCode())
	return err
}

// work LEDGER NAME LENGTH is a job.
func work(args []string) error {
	length, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	ledger(args[0]).note("ran", args[1])
	time.Sleep(rand.N(length))
	fmt.Println(result(os.Getpid()))
	return nil
}
