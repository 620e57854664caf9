//go:build linux

package stress

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
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
)

// Statuses of the command.
const (
	unreachable = 69 // the store has not answered well
	workFailed  = 70
	notAcquired = 75 // another holds it
	leaseLost   = 76 // on a busy machine also without a fault
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
		j := &jobs{URL: store(t), Protocol: protocol, TTL: invokeTTLs[protocol], Again: []int{workFailed, leaseLost}, Once: onLinux}
		j.play(t, nil)
	})
}

// jobs are what orchestrators want the results of.
type jobs struct {
	URL, Protocol string
	TTL           time.Duration
	Again         []int // the statuses after which an orchestrator asks again
	Once          bool  // every second job runs under once, and has no launcher
	Ledger        ledger
	Binary        string
}

// play kills and restarts orchestrators for a while. The last ones are not killed; calm is called
// when they have gone on for as long again.
func (j *jobs) play(t *testing.T, calm func()) {
	j.Ledger, j.Binary = newLedger(t), binary
	log, d := j.Ledger, duration(t)
	text, _ := json.Marshal(j) // of plain data
	argv := helper("orchestrate", string(text))
	kills := make([]int, orchestrators)
	run := func(last bool) {
		var all sync.WaitGroup
		for i := range orchestrators {
			all.Go(func() {
				for end := time.Now().Add(d); !last && time.Now().Before(end) && !t.Failed(); {
					p := start(t, nil, argv...)
					select {
					case <-p.done:
						p.ended(t, 0)
						log.note("ended", p.Process.Pid)
					case <-time.After(rand.N(j.TTL / 2)):
						kills[i]++
						p.signal(syscall.SIGKILL) // with its invokes
						<-p.done
					}
				}
				if last {
					p := start(t, nil, argv...)
					p.ended(t, 0)
					log.note("ended", p.Process.Pid)
				}
			})
		}
		all.Wait()
	}
	run(false)
	if calm != nil {
		time.AfterFunc(d, calm)
	}
	run(true)
	eventually(t, "the launchers of dead orchestrators have ended", func() bool {
		return len(log.read(t, "launched")) == len(log.read(t, "left"))
	})
	again := j.judge(t)
	figures(t, "%d jobs, kills %v, %d launches, %d executions more than jobs", invokeJobs, kills, len(log.read(t, "launched")), again)
}

// judge returns how often jobs have run again.
func (j *jobs) judge(t *testing.T) (again int) {
	log := j.Ledger
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
		if again += len(ran) - 1; j.Protocol == "strict" && !j.once(n) && len(ran) > 1+unlucky {
			t.Errorf("%s has run %d times, and %d remotes failed", name, len(ran), unlucky)
		}
	}
	return again
}

func jobName(n int) string { return fmt.Sprintf("restart/%02d", n) }

func result(pid int) string { return fmt.Sprintf("process %d", pid) }

// once reports whether job n runs under once. If its caller is killed, so is the job, and it runs again.
func (j *jobs) once(n int) bool { return j.Once && n%2 == 1 }

// orchestrate is one run of an orchestrator. It asks for all jobs at once, also for those whose
// results are there already.
func orchestrate(args []string) error {
	var j jobs
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	var calls sync.WaitGroup
	failures := make([]error, invokeJobs)
	for n := range invokeJobs {
		calls.Go(func() {
			for {
				cmd := exec.Command(j.Binary, j.words(n)...)
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if cmd.ProcessState != nil && slices.Contains(j.Again, cmd.ProcessState.ExitCode()) {
					continue // because its remote was killed, or its store was bad
				}
				if failures[n] = err; err == nil {
					j.Ledger.note("got", jobName(n), strings.TrimSpace(string(out)))
				}
				return
			}
		})
	}
	calls.Wait()
	return errors.Join(failures...)
}

// words are those of job n.
func (j *jobs) words(n int) []string {
	name := jobName(n)
	// With --on-loss continue, invoke waits for its launcher's end even if a busy machine loses the lease.
	words := []string{"invoke", "--store", j.URL, "--protocol", j.Protocol, "--ttl", j.TTL.String(), "--on-loss", "continue"}
	if j.Protocol == "lastwriter" {
		words = append(words, "--acquire-margin", (j.TTL / 2).String())
	}
	if j.once(n) {
		words[0] = "once"
		return append(words, name, "--", os.Args[0], helperMark, "work", string(j.Ledger), name, (j.TTL / 2).String())
	}
	return append(words, name, "--", os.Args[0], helperMark, "launch", string(j.Ledger), name, j.TTL.String(), j.Binary)
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
