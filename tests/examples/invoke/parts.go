//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// orchestrate gets the results of all jobs, with a limit on the jobs at once. It
// keeps no state between two of its lives: `invoke` finds out which jobs are
// done, which run and which were never begun. Its words come from the driver.
//
// With a store that the machines share, two orchestrators could do this at the
// same time, and would get the same results.
func orchestrate(words []string) error {
	dir, binary, protocol, ttl := place(words[0]), words[1], words[2], words[3]
	jobs, err := strconv.Atoi(words[4])
	if err != nil {
		return err
	}
	atOnce, err := strconv.Atoi(words[5])
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	failures := make([]error, jobs)
	for n := range jobs {
		name := jobName(n)
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			// stdout is the job's result, whichever process has worked it out.
			call := exec.Command(binary, "invoke", "--protocol", protocol, "--ttl", ttl, name, "--", self, "launch", string(dir), binary, name)
			call.Stderr = os.Stderr
			result, err := call.Output()
			if err != nil {
				failures[n] = fmt.Errorf("%s: %w", name, err)
				return
			}
			failures[n] = dir.keep(name, result)
		})
	}
	calls.Wait()
	return errors.Join(failures...)
}

// launch is what `invoke` runs when the job is ours to begin: it has the job
// done elsewhere, and waits for that. The lease comes in MOPSLOCK_LEASE, and the
// remote inherits it; a cluster's job would get it as an argument. The remote has
// a session of its own, so that it outlives us.
func launch(dir place, binary, name string) error {
	if err := dir.note("launched", name); err != nil {
		return err
	}
	if err := dir.passHold("launcher", name); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	remote := exec.Command(binary, "remote", name, "--", self, "job", string(dir), name)
	remote.Stderr = os.Stderr
	remote.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives us
	return remote.Run()
}

// job is the work itself, with a side effect: it counts itself. Its output is
// the result.
func job(out io.Writer, dir place, name string) error {
	if err := dir.note("began", name); err != nil {
		return err
	}
	if err := dir.passHold("job", name); err != nil {
		return err
	}
	if err := dir.note("ended", name); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s, worked out by process %d\n", name, os.Getpid())
	return err
}
