//go:build linux

package tests

import (
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

func message(b []byte) string { return hex.EncodeToString(b) }

func leaseConfig(seed byte) []byte {
	return core.AppendConfig(nil, &core.Config{
		Machine: core.MachineLease, Protocol: core.ProtocolLastWriter, Name: "n", Seed: [16]byte{seed, 1},
	})
}

func input(mono int64, ev core.Event) []byte {
	return core.AppendInput(nil, core.Instant{Mono: mono, Wall: 1}, &ev)
}

var (
	config  = message(leaseConfig(1))
	refused = message(core.AppendConfig(nil, &core.Config{Machine: core.MachineLease}))
	acquire = message(input(1, core.Event{Kind: core.EventAcquire, Wait: core.Forever}))
	woke    = message(input(1, core.Event{Kind: core.EventWoke}))
)

// TestCore: every code of the core's functions, with both libraries.
func TestCore(t *testing.T) {
	for _, lib := range []library{coreLibrary(t), fullLibrary(t)} {
		command(t, nil, compile(t, "testdata/core.c", lib), config, acquire, refused)
	}
}

// TestRoom: a buffer is used as far as it goes. No answer of the core is as long
// as that, so the C side is tried with a Go side of the test's.
func TestRoom(t *testing.T) {
	none := write(t, "_cgo_export.h", "/* room.c has the declarations */\n")
	command(t, nil, compile(t, "testdata/room.c", library{}, "-I"+c, "-I"+filepath.Dir(none)))
}

func TestThreads(t *testing.T) {
	command(t, nil, compile(t, "testdata/threads.c", coreLibrary(t)), config, acquire, woke)
}

// TestFork: a child says so and never hangs, whenever it was forked.
func TestFork(t *testing.T) {
	lib := coreLibrary(t)
	command(t, nil, compile(t, "testdata/fork.c", lib), config)
	command(t, nil, compile(t, "testdata/fork.c", fullLibrary(t), "-DHOST"), config)
	late := compile(t, "testdata/late.c", library{})
	command(t, nil, late, lib.dir+"/libmopslock-core.so")
	command(t, nil, late, fullLibrary(t).dir+"/libmopslock.so")
}

// TestSignals: the handlers that the header names are those that there are, but
// for the two that libc and Go keep to themselves.
func TestSignals(t *testing.T) {
	for _, lib := range []library{coreLibrary(t), fullLibrary(t)} {
		out := command(t, nil, compile(t, "testdata/signals.c", lib))
		got := strings.Split(strings.TrimSpace(out), "\n")
		want := []string{"Bus error", "Floating point exception", "Segmentation fault", "Broken pipe", "Urgent I/O condition"}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", lib.name, got, want)
		}
	}
}
