package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

// leaseCommand is what renew and release have in common.
func (a *app) leaseCommand(use, short, long, example string, do func(context.Context, *host.Host, host.Handle, host.Terms) error) *cobra.Command {
	var f termFlags
	cmd := &cobra.Command{
		Use: use + " LEASE [flags]", Short: short, Long: long, Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("%s takes one LEASE: a file, - for stdin, or the JSON text itself", use)
			}
			ctx, cancel := a.signals.WaitContext(context.Background())
			defer cancel()
			handle, err := a.readHandle(ctx, args[0])
			if err != nil {
				return err
			}
			terms := f.terms()
			terms.TTL, terms.Protocol = handle.TTL, handle.Protocol // the lease wins
			if err := exit.Usage(f.checkTerms(handle.Name, terms)...); err != nil {
				return err
			}
			h, err := a.openURL(ctx, handle.Store)
			if err != nil {
				return err
			}
			defer a.close(h)
			ctx, stop := untilAnswered(ctx, h)
			defer stop()
			if err := do(ctx, h, handle, terms); err != nil {
				a.closeNow()
				return err
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) reportHandle(handle host.Handle) error {
	return a.print(handle.String() + "\n")
}

// lookLimit bounds an inspection without which the command also goes on.
const lookLimit = 2 * time.Second

// maxHandle bounds the text of a lease, in bytes.
const maxHandle = 64 << 10

// readHandle reads the lease that an argument names: `{…}` is the text itself, -
// is stdin, and any other word is a file.
func (a *app) readHandle(ctx context.Context, arg string) (host.Handle, error) {
	if strings.HasPrefix(strings.TrimSpace(arg), "{") {
		return parseHandle(arg)
	}
	type answer struct {
		text []byte
		err  error
	}
	read := make(chan answer, 1)
	go func() { // a terminal or a FIFO may never end; this ends with the process
		text, err := a.readSource(arg)
		read <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return host.Handle{}, context.Cause(ctx)
	case a := <-read:
		if a.err != nil {
			return host.Handle{}, exit.Usagef("LEASE: %v", a.err)
		}
		return parseHandle(string(a.text))
	}
}

func (a *app) readSource(arg string) ([]byte, error) {
	source := a.stdin
	if arg != "-" {
		file, err := os.Open(arg)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		source = file
	}
	return io.ReadAll(io.LimitReader(source, maxHandle))
}

func parseHandle(text string) (host.Handle, error) {
	handle, err := host.ParseHandle(text)
	if err != nil {
		return handle, exit.Usage(err)
	}
	return handle, nil
}
