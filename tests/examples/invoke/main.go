//go:build unix

// Command invoke is the worked example of `mopslock-host invoke` and `remote`:
// an orchestrator has fifty jobs done by remotes that outlive it. Half-way it is
// killed (SIGKILL) with all its processes but the remotes, and started again. It
// then gets every result, and no job has run twice.
//
//	go build -o bin/mopslock-host ./cmd/mopslock-host
//	go run ./tests/examples/invoke bin/mopslock-host
//
// One program plays all parts, each in a process of its own. A user of mopslock
// would write parts.go; the rest is the stage that it stands on:
//
//	driver ─ starts and kills ─► orchestrator ─► mopslock-host invoke jobs/07 -- launcher
//	                                                                                │ in a session of its own
//	                                          mopslock-host remote jobs/07 -- job ◄─┘
//
// Here a launcher starts a process; elsewhere it asks a cluster (see
// ../kubernetes). It needs a Unix system for its process groups.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

func main() { os.Exit(execute(os.Stdout, os.Args[1:])) }

// execute plays the part that the first word names, and otherwise drives the
// show. It returns the exit status.
func execute(out io.Writer, args []string) int {
	var err error
	switch {
	case len(args) == 7 && args[0] == "orchestrate":
		err = orchestrate(args[1:])
	case len(args) == 4 && args[0] == "launch":
		err = launch(place(args[1]), args[2], args[3])
	case len(args) == 3 && args[0] == "job":
		err = job(out, place(args[1]), args[2])
	default:
		err = show(out, args)
	}
	var child *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &child) && child.ExitCode() > 0:
		return child.ExitCode() // a launcher's status is its remote's
	}
	fmt.Fprintln(os.Stderr, "invoke:", err)
	return 1
}

// settings are what the show is played with.
type settings struct {
	binary   string // of mopslock-host
	protocol string
	ttl      time.Duration
	jobs     int // at least leastJobs
}

const leastJobs = 8

func show(out io.Writer, args []string) error {
	var s settings
	flags := flag.NewFlagSet("invoke", flag.ContinueOnError)
	flags.StringVar(&s.protocol, "protocol", "strict", "strict or lastwriter")
	flags.DurationVar(&s.ttl, "ttl", 2*time.Second, "of the leases: how long after the kill the unlucky job waits")
	flags.IntVar(&s.jobs, "jobs", 50, "how many jobs there are, "+strconv.Itoa(leastJobs)+" or more")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || s.jobs < leastJobs {
		return fmt.Errorf("usage: invoke [-protocol P] [-ttl D] [-jobs N] PATH-OF-MOPSLOCK-HOST, with N of %d or more", leastJobs)
	}
	var err error
	if s.binary, err = filepath.Abs(flags.Arg(0)); err != nil {
		return err
	}
	found, err := play(out, s)
	if err != nil {
		return err
	}
	found.print(out)
	return found.judge()
}
