//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// driver starts an orchestrator, kills it half-way, and starts it again. At the
// kill, of 50 jobs
//
//	25  have ended
//	12  run, and stand still at a hold
//	 1  is unlucky: its launcher runs, and has not started its remote
//	12  were not begun
//
// After the kill no process keeps the unlucky job's lease alive. So when that job
// has been done after all, a TTL has passed since the kill, and every other lease
// that is not taken by then is kept alive by its remote. The driver needs no clock
// to know that.
type driver struct {
	settings
	place

	self  string
	out   io.Writer
	log   *os.File
	began time.Time

	ended, running, later []int // the jobs' numbers, by what is meant for them
	unlucky               int

	first, second      *exec.Cmd
	atKill, afterwards []history
}

// play returns what was found, which judge calls good or not; an error means
// that the show could not be played to its end.
func play(out io.Writer, s settings) (report, error) {
	dir, err := os.MkdirTemp("", "mopslock-invoke-")
	if err != nil {
		return report{}, err
	}
	defer os.RemoveAll(dir) // again: an orphan may have written into it
	defer os.RemoveAll(dir)
	d := &driver{settings: s, place: place(dir), out: out, began: time.Now()}
	if err := d.prepare(); err != nil {
		return report{}, err
	}
	defer d.log.Close()
	for _, act := range []func() error{d.firstLife, d.kill, d.secondLife} {
		if err := act(); err != nil {
			said, _ := os.ReadFile(d.path("log"))
			return report{}, errors.Join(err, d.clear(), fmt.Errorf("what all said:\n%s", said))
		}
	}
	return d.report()
}

func (d *driver) prepare() (err error) {
	if d.self, err = os.Executable(); err != nil {
		return err
	}
	for _, name := range []string{"store", "hold", "results"} {
		if err := os.Mkdir(d.path(name), 0o700); err != nil {
			return err
		}
	}
	for n := range d.jobs {
		switch quarter := d.jobs / 4; {
		case n < d.jobs/2:
			d.ended = append(d.ended, n)
		case n < d.jobs/2+quarter:
			d.running = append(d.running, n)
			err = d.hold("job", jobName(n))
		case n == d.jobs/2+quarter:
			d.unlucky = n
			err = d.hold("launcher", jobName(n))
		default:
			d.later = append(d.later, n)
		}
		if err != nil {
			return err
		}
	}
	d.log, err = os.Create(d.path("log"))
	return err
}

// orchestrator starts an orchestrator, at the head of a process group of its own.
func (d *driver) orchestrator(atOnce int) (*exec.Cmd, error) {
	cmd := exec.Command(d.self, "orchestrate", string(d.place), d.binary, d.protocol, d.ttl.String(), strconv.Itoa(d.jobs), strconv.Itoa(atOnce))
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") { // as if this process had no lease
			cmd.Env = append(cmd.Env, line)
		}
	}
	cmd.Env = append(cmd.Env, "MOPSLOCK_STORE="+"file://"+d.path("store"))
	cmd.Stdout, cmd.Stderr = d.log, d.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

// firstLife runs the first orchestrator up to the moment of its death. The jobs that
// stand still take all its slots, so that the last jobs are not begun.
func (d *driver) firstLife() (err error) {
	d.say("an orchestrator begins: %d jobs, at most %d at once", d.jobs, len(d.running)+1)
	if d.first, err = d.orchestrator(len(d.running) + 1); err != nil {
		return err
	}
	return d.await("half of the jobs have ended, and others run", func(all []history) bool {
		return each(d.ended, func(n int) bool { return len(all[n].got) > 0 }) &&
			each(d.running, func(n int) bool { return len(all[n].began) > 0 }) && len(all[d.unlucky].launched) > 0
	})
}

// kill ends every process that would be lost with the orchestrator's machine: the
// orchestrator and its `invoke`s, which are one process group, and the launchers,
// which have one each. Only the remotes run elsewhere.
func (d *driver) kill() error {
	if err := syscall.Kill(-d.first.Process.Pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the orchestrator: %w", err)
	}
	_ = d.first.Wait() // killed, as it is to be
	all, err := d.histories(d.jobs)
	if err != nil {
		return err
	}
	for _, n := range append([]int{d.unlucky}, d.running...) {
		// These launchers wait for a remote that stands still, or stand still, so they still run.
		if err := syscall.Kill(-all[n].launched[0], syscall.SIGKILL); err != nil {
			return fmt.Errorf("killing the launcher of %s: %w", jobName(n), err)
		}
	}
	d.say("the orchestrator is killed (SIGKILL), and so are its invokes and launchers; the remotes go on")
	if d.atKill, err = d.histories(d.jobs); err != nil {
		return err
	}
	return d.letGo("launcher", jobName(d.unlucky))
}

// secondLife runs the orchestrator again, and lets the jobs that stand still go on
// once all the others are done.
func (d *driver) secondLife() (err error) {
	d.say("the orchestrator begins again: %d jobs, all at once", d.jobs)
	if d.second, err = d.orchestrator(d.jobs); err != nil {
		return err
	}
	ours := d.second.Process.Pid
	got := func(all []history) func(int) bool {
		return func(n int) bool { return slices.Contains(all[n].got, ours) }
	}
	rest := slices.Concat(d.ended, []int{d.unlucky}, d.later)
	if err := d.await("all jobs but those that stand still are done", func(all []history) bool { return each(rest, got(all)) }); err != nil {
		return err
	}
	d.say("it has %d results, and a TTL of %v is over; %d jobs still run, and it waits for them", len(rest), d.ttl, len(d.running))
	for _, n := range d.running {
		if err := d.letGo("job", jobName(n)); err != nil {
			return err
		}
	}
	if err := d.await("it has all results", func(all []history) bool { return each(append(rest, d.running...), got(all)) }); err != nil {
		return err
	}
	if err := d.second.Wait(); err != nil {
		return fmt.Errorf("the second orchestrator: %w", err)
	}
	d.say("it has all %d results", d.jobs)
	d.afterwards, err = d.histories(d.jobs)
	return err
}

// clear ends what a failed show has left behind: the orchestrators by a signal,
// and all others by removing the holds that they wait for.
func (d *driver) clear() error {
	for _, cmd := range []*exec.Cmd{d.first, d.second} {
		if cmd != nil && cmd.Process != nil && cmd.ProcessState == nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
	}
	if err := os.RemoveAll(d.path("hold")); err != nil {
		return err
	}
	return d.await("the jobs that run have ended", func(all []history) bool {
		return !slices.ContainsFunc(all, func(h history) bool { return len(h.ended) < len(h.began) })
	})
}

func (d *driver) await(what string, ok func([]history) bool) error {
	return poll(what, func() (bool, error) {
		all, err := d.histories(d.jobs)
		return err == nil && ok(all), err
	})
}

func (d *driver) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.2fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

func each(jobs []int, ok func(int) bool) bool {
	return !slices.ContainsFunc(jobs, func(n int) bool { return !ok(n) })
}
