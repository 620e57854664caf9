//go:build linux

package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

func replayer(t *testing.T, lib library) string {
	t.Helper()
	return compile(t, filepath.Join(c, "replay/replay.c"), lib, "-O2")
}

// TestVectors repeats every vector through the C functions, byte for byte; replay says which file and line is not so.
func TestVectors(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../core/testdata/vectors/*.vec")
	if err != nil || len(paths) == 0 {
		t.Fatal("no vectors", err)
	}
	command(t, nil, replayer(t, coreLibrary(t)), paths...)
}

// looks is a vector: machines that each begin to acquire, and then are woken in turn.
func looks(count, rounds int) string {
	var text strings.Builder
	var r machines.Registry
	handles := make([]machines.Handle, count)
	for i := range handles {
		cfg := leaseConfig(byte(i + 1))
		var answer []byte
		handles[i], answer = r.New(nil, cfg)
		fmt.Fprintf(&text, "new %d %x\nanswer %x\n", i+1, cfg, answer)
	}
	step := func(at int64, event core.Event) {
		for i, handle := range handles {
			in := input(at, event)
			fmt.Fprintf(&text, "step %d %x\nanswer %x\n", i+1, in, r.Step(nil, handle, in))
		}
	}
	step(1, core.Event{Kind: core.EventAcquire, Wait: core.Forever})
	for at := range rounds {
		step(int64(at+2), core.Event{Kind: core.EventWoke})
	}
	return text.String()
}

// TestReplayFinds what differs, and says where.
func TestReplayFinds(t *testing.T) {
	t.Parallel()
	replay := replayer(t, coreLibrary(t))
	good := looks(2, 6)
	command(t, nil, replay, write(t, "good.vec", "# fine\n\n"+good+"drop 1\ndrop 2\n"))
	lines := strings.SplitAfter(good, "\n")
	last := strings.TrimSpace(lines[len(lines)-2]) // an answer
	flipped := last[:len(last)-1] + map[bool]string{true: "1", false: "0"}[last[len(last)-1] == '0']
	instead := func(answer string) string { return strings.TrimSuffix(good, last+"\n") + answer }
	at := fmt.Sprintf("x.vec:%d: the answer differs at byte %d", len(lines)-1, (len(last)-len("answer "))/2-1)
	for what, test := range map[string]struct {
		text, says string
		code       int
	}{
		"another byte":   {instead(flipped), at, 1},
		"a byte less":    {instead(last[:len(last)-2]), at + ", vector has ended", 1},
		"a byte more":    {instead(last + "00"), ", library has ended", 1},
		"no answer":      {instead(""), "without an answer", 2},
		"no machine":     {good + "drop 3\n", "no such machine", 2},
		"machine twice":  {good + lines[0] + lines[1], "there already", 2},
		"odd hex":        {good + "step 1 abc\n", "odd number", 2},
		"capital hex":    {good + "step 1 AB\n", "not in hex", 2},
		"no hex":         {good + "step 1\n", "bytes are missing", 2},
		"no number":      {good + "step x 00\n", "number is missing", 2},
		"another verb":   {good + "again 1\n", "not new, step", 2},
		"more on a line": {good + "drop 1 2\n", "something follows", 2},
		"nothing":        {"# only this\n", "ends", 2},
	} {
		out, code := run(t, nil, replay, write(t, "x.vec", test.text))
		if code != test.code || !strings.Contains(out, "x.vec:") || !strings.Contains(out, test.says) {
			t.Errorf("%s: exit %d, want %d with %q: %s", what, code, test.code, test.says, out)
		}
	}
	if _, code := run(t, nil, replay, filepath.Join(t.TempDir(), "absent.vec")); code != 2 {
		t.Errorf("absent file: exit %d", code)
	}
}

// TestStepsAllocateNothing: hundreds of thousands of steps from C do not make the Go
// side collect once more than some hundreds do. The collector is set to begin after a
// megabyte: the least that is allocated by itself, 8 bytes a step, is four collections
// more. Machines are made in both runs, as many.
func TestStepsAllocateNothing(t *testing.T) {
	const repeats = 100
	replay := replayer(t, coreLibrary(t))
	collections := func(count, rounds int) int {
		file := write(t, "looks.vec", looks(count, rounds))
		out := command(t, []string{"GOGC=1", "GODEBUG=gctrace=1"}, replay, "--bench", fmt.Sprint(repeats), file)
		return strings.Count("\n"+out, "\ngc ")
	}
	// What the runtime itself allocates on a busy machine only adds to a count, so the
	// least of some counts is the steps' own.
	few, many := collections(1, 30), collections(1, 6000)
	for tries := 0; many > few+1 && tries < 3; tries++ {
		many = min(many, collections(1, 6000))
	}
	// That collections are counted is shown by machines, which are some kilobytes.
	if made := collections(64, 0); many > few+1 || made < few+10 {
		t.Errorf("%d collections with %d steps, %d with %d, %d with %d machines", few, 31*repeats, many, 6001*repeats, made, 64*repeats)
	}
}
