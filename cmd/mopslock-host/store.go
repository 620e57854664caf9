package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// open opens the store that --store or the environment names, or the default one.
func (a *app) open(ctx context.Context, cmd *cobra.Command) (*host.Host, error) {
	raw, err := a.location(cmd)
	if err != nil {
		return nil, err
	}
	return a.openURL(ctx, raw)
}

// location returns the URL of that store.
func (a *app) location(cmd *cobra.Command) (string, error) {
	raw := a.storeURL
	if raw == "" {
		if cmd.Flags().Changed("store") { // --store "$UNSET" must not mean the default store, which excludes on this machine only
			return "", exit.Usagef("--store is empty; is the variable that it was to come from unset?")
		}
		raw = a.getenv("MOPSLOCK_STORE")
	}
	if raw == "" {
		dir, err := a.defaultStore()
		if err != nil {
			return "", err
		}
		raw = (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
		a.console.Plainf("store: %s (this machine only; set --store to share)", raw)
	}
	return raw, nil
}

func (a *app) openURL(ctx context.Context, raw string) (*host.Host, error) {
	if isMemory(raw) {
		return nil, errMemory()
	}
	h, err := a.openHost(ctx, raw, &host.Options{Logger: a.console.Logger(), Engine: a.core(), Meter: a.metrics.Meter(), Clock: a.clock})
	if err == nil {
		a.steppers++
		a.engine.Begin()
	}
	return h, err
}

func isMemory(raw string) bool {
	scheme, _, _ := strings.Cut(raw, ":")
	return strings.EqualFold(scheme, "mem")
}

// errMemory is for all commands but those that only examine what a store does.
func errMemory() error {
	return exit.Usagef("a mem:// store is this process's own and excludes nobody; choose another --store")
}

// defaultStore makes the directory of this user's leases.
func (a *app) defaultStore() (string, error) {
	dir, err := a.defaultDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", &exit.Error{Status: exit.StatusUnavailable, Reason: "no_such_store", Text: fmt.Sprintf("default store: %v; set --store, or MOPSLOCK_STORE, to a URL such as s3://bucket/prefix", err)}
	}
	return dir, nil
}

// defaultDir returns the path of that directory.
func (a *app) defaultDir() (string, error) {
	state := a.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification says to ignore a relative one
		home, err := os.UserHomeDir()
		if err != nil {
			return "", exit.Usagef("no default store: %v; set --store, or MOPSLOCK_STORE, to a URL such as s3://bucket/prefix", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "mopslock"), nil
}

// closeLimit bounds what comes after the work: a release, the end of an invocation.
const closeLimit = 10 * time.Second

// close ends a host within a.closing. What it could not release expires.
func (a *app) close(h *host.Host) {
	ctx, cancel := context.WithTimeout(context.Background(), a.closing)
	defer cancel()
	if err := h.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		a.console.Printf("closing the store: %v", err)
	}
	a.steppers--
}

// closeNow lets close try nothing more, after a failure that has used up its time.
func (a *app) closeNow() { a.closing = 0 }

// withStore opens the store for a command that asks it something, and closes it. For
// 5 s it asks a silent store again.
func (a *app) withStore(cmd *cobra.Command, do func(context.Context, *host.Host) error) error {
	ctx, cancel := a.signals.WaitContext(context.Background())
	defer cancel()
	h, err := a.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer a.close(h)
	ctx, stop := untilAnswered(ctx, h)
	defer stop()
	var silence error
	for pause := core.PollFirst; ; pause *= 2 {
		err := do(ctx, h)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // interrupted, or no answer: err only repeats that
			return noAnswer(context.Cause(ctx), silence)
		case h.Reached() || !silent(err):
			return err
		}
		silence = err
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// untilAnswered returns ctx for commands that ask once: it ends with exit.ErrNoAnswer
// if the store has not answered anything within 5 s.
func untilAnswered(ctx context.Context, h *host.Host) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(core.FirstAnswerLimit, func() {
		if !h.Reached() {
			cancel(exit.ErrNoAnswer)
		}
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// silent reports whether the store has not answered, and may yet.
func silent(err error) bool {
	var verb *store.Error
	var lease *host.Error
	class := core.ClassNone
	switch {
	case errors.As(err, &verb):
		class = verb.Class
	case errors.As(err, &lease):
		class = lease.Class
	}
	return class == core.ClassUnreachable || class == core.ClassThrottled
}

// noAnswer adds the error that came in the place of an answer.
func noAnswer(cause, silence error) error {
	if silence == nil || !errors.Is(cause, exit.ErrNoAnswer) {
		return cause
	}
	out := exit.Of(silence)
	out.Text = "the store has not answered once within 5 s: " + out.Text
	return out
}

// isPaid reports whether requests of a store cost money.
func isPaid(raw string) bool {
	return !isMemory(raw) && !strings.HasPrefix(strings.ToLower(raw), "file:")
}
