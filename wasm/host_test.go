package wasm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/wasm"
)

var _ host.Engine = (*wasm.Engine)(nil)

// TestHostSurvivesTrap: the lease that a guest held is given up with an error
// that says why; the next one is had from a fresh guest, on the same Host.
func TestHostSurvivesTrap(t *testing.T) {
	ctx := context.Background()
	engine, err := wasm.Open(ctx, &wasm.Options{CacheDir: wasm.CacheOfTests()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(ctx)
	h, err := host.Open(ctx, "mem://", &host.Options{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(ctx)
	opts := &host.AcquireOptions{Terms: host.Terms{TTL: time.Minute}}
	lease, err := h.TryAcquire(ctx, "first", opts)
	if err != nil {
		t.Fatal(err)
	}
	engine.BreakGuest()
	err = lease.Release(ctx)
	if !errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable}) || !errors.As(err, new(*host.EngineError)) ||
		!strings.Contains(err.Error(), "broken by the test") {
		t.Error(err)
	}
	next, err := h.TryAcquire(ctx, "second", opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Release(ctx); err != nil {
		t.Error(err)
	}
}
