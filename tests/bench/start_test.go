package main

import "testing"

// TestStartUp: a source times whole processes, and one that fails is no figure.
func TestStartUp(t *testing.T) {
	w := &workshop{dir: t.TempDir(), ctx: t.Context(), built: map[string]error{}}
	if bare, err := startTrue.measure(w); err != nil || bare.Value <= 0 {
		t.Errorf("%v, %v", bare, err)
	}
	for _, s := range []startUp{startFork, startFork.inCPU()} {
		if ours, err := s.measure(w); err != nil || ours.Value <= 0 {
			t.Errorf("%v, %v", ours, err)
		}
	}
	if size, err := (programSize{forking}).measure(w); err != nil || size.Value < 1<<20 || size.Unit != inBytes {
		t.Errorf("%v, %v", size, err)
	}
	if f, err := (startUp{program: "false"}).measure(w); err == nil {
		t.Errorf("a process that failed took %v", f)
	}
}

// TestStartUps: each is measured on a store that nobody else has a name in.
func TestStartUps(t *testing.T) {
	names := map[string]bool{}
	for _, s := range []startUp{startRun, startSlim, startWASM} {
		name := s.args[len(s.args)-3]
		if names[name] || s.args[0] != "run" {
			t.Errorf("%v: another has this name", s.args)
		}
		names[name] = true
	}
	for _, s := range []startUp{startLinked, startVerbs} {
		if len(s.args) != 1 || s.args[0] != startTrue.program {
			t.Errorf("%v is not the floor of what runs %s", s.args, startTrue.program)
		}
	}
}
