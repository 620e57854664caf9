//go:build unix

package main

// The cost of a process that only holds a lease around true: beside a program without a
// lease that makes the same requests and fsyncs, and beside what linking the clouds' SDKs
// costs any program. Rows show the processor's time, which other work disturbs less.
var startRows = []row{
	{what: "mopslock-host run -- true, wall / true alone", ours: startRun, beside: startTrue, rounds: 3},
	{what: "the same, the processor's time / true alone", ours: startRun.inCPU(), beside: startTrue.inCPU(), rounds: 3},
	{what: "the same / a Go program with the same SDKs in it that runs true", ours: startRun.inCPU(), beside: startLinked.inCPU(), budget: times(1.8), rounds: 3},
	{what: "the same / a Go program that runs true between the same requests", ours: startRun.inCPU(), beside: startVerbs.inCPU(), budget: times(2.6), rounds: 3},
	{what: "the same, for directories alone (mopslock_nocloud) / that program", ours: startSlim.inCPU(), beside: startVerbs.inCPU(), budget: times(2.1), rounds: 3},
	{what: "mopslock-host run --engine wasm, warm cache / native", ours: startWASM.inCPU(), beside: startRun.inCPU(), budget: times(5), rounds: 3},
	{what: "a Go program that runs true / true alone", ours: startFork.inCPU(), beside: startTrue.inCPU(), rounds: 3},
	{what: "size of mopslock-host / a Go program with the same SDKs in it", ours: programSize{builtHost}, beside: programSize{linkedFork}, budget: times(1.4), rounds: 1},
	{what: "size of mopslock-host for directories alone / with all stores", ours: programSize{slimHost}, beside: programSize{builtHost}, budget: times(0.6), rounds: 1},
}
