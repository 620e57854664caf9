//go:build unix

package main

import "time"

func keeper(what string) python { return packaged("keeper.py", what) }

// in has the figure of a source counted in something else than time.
type in struct {
	source
	unit unit
}

func (c in) measure(w *workshop) (figure, error) {
	f, err := c.source.measure(w)
	f.Unit = c.unit
	return f, err
}

var strictOnDirectory = trialOf(goBench{"tests/bench", "StrictFresh/file"})

// pythonRows are what a Python program costs that keeps its leases in a keeper.
var pythonRows = []row{
	{
		what: "acquire + release, strict, never used, file:// on disk, from Python / from Go", rounds: 3,
		ours: keeper("acquire"), beside: strictOnDirectory.figure("ns-ours", inTime),
	},
	{
		what: "the same / its requests, bare", budget: times(1.5), rounds: 3,
		ours: keeper("acquire"), beside: strictOnDirectory.figure("ns-bare", inTime),
	},
	{
		what: "first acquire of a process, file:// / own store", budget: moreTime(60 * time.Millisecond),
		ours: keeper("first"), beside: keeper("first-own"),
	},
	{what: "first acquire of a process, own store, WASM with a warm cache", ours: keeper("first-wasm"), budget: atMost(float64(200 * time.Millisecond))},
	{what: "hand-over between two processes in Python, file:// on disk", ours: keeper("handover"), budget: atMost(float64(20 * time.Millisecond)), rounds: 3},
	{what: "1,000 leases on a session, file://: of a processor", ours: in{keeper("session"), inPercent}, budget: atMost(1), rounds: 1},
	{what: "memory of a keeper that holds a lease", ours: in{keeper("rest"), inBytes}, budget: atMost(40 << 20), rounds: 1},
	{what: "import mopslock", ours: keeper("import"), budget: atMost(float64(150 * time.Millisecond))},
	{what: "check() of a held lease, file:// / own store", ours: packaged("check.py", "url"), beside: packaged("check.py", "own")},
	{what: "check() of a held lease, file://", ours: packaged("check.py", "url"), budget: atMost(float64(3 * time.Microsecond))},
}
