package engine

import (
	"runtime/debug"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// The engine that Begin opens is the one that the first machine runs on. It is opened once, and garbage is
// collected afterwards as before. Native has nothing to open.
func TestBegin(t *testing.T) {
	percent := debug.SetGCPercent(50)
	defer debug.SetGCPercent(percent)
	e := &Engine{Name: WASM}
	e.Begin()
	cfg := core.Config{Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolStrict, Name: "n"}, Seed: [16]byte{1}}
	machine, err := e.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	first := e.inner
	e.Begin()
	e.Drop(machine)
	e.Close(t.Context())
	if _, err := e.New(cfg); err == nil || e.inner != first {
		t.Errorf("opened again: %v", err)
	}
	if now := debug.SetGCPercent(50); now != 50 {
		t.Errorf("garbage is collected at %d %% of what lives, not at 50", now)
	}

	native := &Engine{Name: Native}
	native.Begin()
	native.Close(t.Context())
	if native.inner != nil {
		t.Error("native was opened, for nobody")
	}
	if _, err := native.New(cfg); err == nil {
		t.Error("a closed engine has made a machine")
	}
}
