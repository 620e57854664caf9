//go:build unix

package main

var (
	nativeStep = goBench{"tests/bench", "StepNative"}
	stepBeside = trialOf(goBench{"tests/bench", "StepBeside"})

	coreRows = []row{
		{what: "native step, message to message, in turns with map lookup + copy", ours: stepBeside.figure("ns-ours", inTime), beside: stepBeside.figure("ns-bare", inTime), budget: times(16)},
		{what: "the same, each over and over alone", ours: nativeStep, beside: goBench{"tests/bench", "MapAndCopy"}, noAllocs: true},
		{what: "C → libmopslock-core step / native step", ours: replayC{}, beside: nativeStep, budget: times(2.2)},
		{what: "wazero step / native step", ours: goBench{"tests/bench", "StepWASM"}, beside: nativeStep, budget: times(18), noAllocs: true},
		{what: "Python step, cffi in API mode / native step", ours: stepCffi, beside: nativeStep, budget: times(4)},
		{what: "Python step, ctypes that keeps the GIL, buffers used again / native step", ours: stepCtypes("PyDLL"), beside: nativeStep, budget: times(8)},
		{what: "Python step, ctypes that releases the GIL, buffers used again / native step", ours: stepCtypes("CDLL"), beside: nativeStep, budget: times(10)},
		{what: "Python step as the package makes it, dict in, dict out / native step", ours: packaged("step_package.py", vectorPath), beside: nativeStep},
		{what: "guest / a bare Go reactor", ours: guestSize{}, beside: bareSize{}, budget: moreBytes(guestBudget)},
		{what: "engine opened from the cache / compiled", ours: goBench{"tests/bench", "OpenWASM"}, beside: goBench{"tests/bench", "CompileWASM"}, budget: times(0.2)},
		{what: "one more guest / engine opened from the cache", ours: goBench{"tests/bench", "GuestWASM"}, beside: goBench{"tests/bench", "OpenWASM"}},
	}
)
