package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/metrics"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/keep"
)

func (a *app) keepCommand() *cobra.Command {
	var parent int
	var belief string
	var detach bool
	cmd := &cobra.Command{
		Use:   "keep [flags]",
		Short: "hold leases for a process in another language",
		Long: `keep holds leases and permits for its parent, a program in any language: it makes the requests and the renewals, and
needs neither the parent's attention nor its threads. The parent writes commands to stdin and reads notices from
stdout, both msgpack values back to back. The parent opens stores by URL, and --store is not used. bindings/README.md of the
source has the messages and an example in JavaScript.

keep ignores INT, HUP, TERM and QUIT, which a terminal sends to a whole group. It ends with 0 when stdin ends, or when
the process of --parent does. It releases nothing then: what it holds expires, unless the parent has sent close
before. If the parent is only stopped (SIGSTOP), keep goes on and keeps its leases. After bytes that are no message it
ends with 64.

Without --belief the parent hears each renewal, with the deadline until which it may rely on the lease. With it the
parent reads the deadlines from memory.`,
		Example: `  mopslock-host keep --parent $$ <commands >notices`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return exit.Usagef("keep takes no argument: commands are read from stdin")
			case parent < 0:
				return exit.Usagef("--parent %d: the id of a process", parent)
			}
			var file *os.File
			if belief != "" {
				var err error
				if file, err = openBelief(belief); err != nil {
					return exit.Usagef("--belief: %v", err)
				}
			}
			if detach {
				return detached(cmd.Flags(), file)
			}
			return a.keep(parent, file)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&parent, "parent", 0, "end when the process of this id has ended, also if stdin is still open; records name that process (default: end with stdin alone)")
	flags.StringVar(&belief, "belief", "", "write the deadlines of claims into this `file`, which the parent maps; /dev/fd/N is a descriptor that was inherited")
	flags.BoolVar(&detach, "detach", false, "start keep anew in a process that is no child of the parent's, with the same stdin, stdout and stderr, and end")
	return cmd
}

func (a *app) keep(parent int, belief *os.File) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT)
	counted := metrics.NewReader()
	o := keep.Options{Host: host.Options{Engine: a.core(), Clock: a.clock, PID: parent, Meter: counted.Meter()}, Counted: counted.Counted}
	if belief != nil {
		var err error
		if o.Belief, err = keep.OpenBelief(belief); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return exit.Usagef("--belief: %v", err)
		}
	}
	if parent > 0 {
		go func() {
			keep.AwaitEnd(parent)
			os.Exit(0)
		}()
	}
	return keep.Serve(a.stdin, a.stdout, o)
}

// inherits begins the path of a file that is open already.
const inherits = "/dev/fd/"

func openBelief(path string) (*os.File, error) {
	if number, ok := strings.CutPrefix(path, inherits); ok {
		fd, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// detached starts keep anew with the same flags, and leaves it to init. The parent reaps us, and has no child.
func detached(flags *pflag.FlagSet, belief *os.File) error {
	path, err := os.Executable()
	if err != nil {
		return exit.Usagef("--detach: %v", err)
	}
	cmd := exec.Command(path, "keep")
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "detach" && f.Name != "belief" {
			cmd.Args = append(cmd.Args, "--"+f.Name+"="+f.Value.String())
		}
	})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if belief != nil {
		passOn(cmd, belief)
	}
	cmd.SysProcAttr = ofItsOwn()
	if err := cmd.Start(); err != nil {
		return exit.Usagef("--detach: %v", err)
	}
	return cmd.Process.Release()
}
