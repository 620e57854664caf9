package main

import (
	"context"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
)

// core returns the engine that runs the machines, behind the recorder of --trace.
func (a *app) core() host.Engine {
	if a.trace != nil {
		return a.trace
	}
	return &a.engine
}

// interruptible runs a function that may hang on a pipe or a mount. If a signal comes first it returns,
// and the function ends with the process.
func (a *app) interruptible(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	a.steppers++
	go func() { done <- do() }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-done:
		a.steppers--
		return err
	}
}

// endEngine ends the recording and the engine, at the very end. An error of the recording is printed,
// and changes no status.
func (a *app) endEngine() {
	ctx, cancel := context.WithTimeout(context.Background(), tracePatience)
	defer cancel()
	if a.trace != nil {
		if err := a.trace.Close(ctx); err != nil {
			a.console.Printf("--trace: %s", exit.Text(err))
		}
	}
	if a.steppers == 0 { // otherwise a function that was left behind may still step a machine
		a.engine.Close(ctx)
	}
}
