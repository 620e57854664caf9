package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// two has the other process wait while this one holds the lease:
//
//	we         acquire ── "go" ─────────────── hold ── begun, release
//	the other             acquire ── "waits" ─────────────── acquired, at ── release ── "at"
//
// Both read one wall clock of one machine.
func two(ctx context.Context, j *job) (samples []time.Duration, err error) {
	other, err := j.startSecond(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.close()) }()
	h, err := j.host(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(h)) }()
	return j.sampled(func(int) (time.Duration, error) {
		l, err := j.acquire(ctx, h, name)
		if err != nil {
			return 0, err
		}
		if err := errors.Join(other.ask("go", "waits"), j.hold(ctx)); err != nil {
			return 0, err
		}
		begun := time.Now().UnixNano()
		if err := l.Release(ctx); err != nil {
			return 0, err
		}
		text, err := other.line()
		if err != nil {
			return 0, err
		}
		at, err := strconv.ParseInt(text, 10, 64)
		return time.Duration(at - begun), err
	})
}

// partner is the other process.
type partner struct {
	cmd    *exec.Cmd
	asks   io.WriteCloser
	says   *bufio.Reader
	stderr strings.Builder
}

func (j *job) startSecond(ctx context.Context) (*partner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &partner{cmd: exec.CommandContext(ctx, self, "-protocol", j.terms.Protocol.String(), "-store", j.url, "second")}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	p.cmd.Stderr = &p.stderr
	says, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.asks, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.says = bufio.NewReader(says)
	return p, p.cmd.Start()
}

func (p *partner) line() (string, error) {
	text, err := p.says.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

func (p *partner) ask(what, answer string) error {
	if _, err := fmt.Fprintln(p.asks, what); err != nil {
		return err
	}
	text, err := p.line()
	if err == nil && text != answer {
		err = fmt.Errorf("the other said %q, not %q", text, answer)
	}
	return err
}

// close lets the other process end, as it does when it is asked nothing more.
func (p *partner) close() error {
	err := errors.Join(p.asks.Close(), p.cmd.Wait())
	if err != nil {
		err = fmt.Errorf("the other process: %w\n%s", err, p.stderr.String())
	}
	return err
}

// second is the other of two processes.
func second(ctx context.Context, j *job) (_ []time.Duration, err error) {
	h, err := j.host(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing(h)) }()
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		got, err := j.await(ctx, h, name)
		if err != nil {
			return nil, err
		}
		fmt.Println("waits")
		next := <-got
		if next.err == nil {
			next.err = next.Release(ctx)
		}
		if next.err != nil {
			return nil, next.err
		}
		fmt.Println(next.at.UnixNano())
	}
	return nil, nil
}
