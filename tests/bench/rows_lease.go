//go:build unix

package main

var (
	acquireRelease = goBench{"tests/bench", "AcquireRelease"}
	bareVerbs      = goBench{"tests/bench", "BareVerbs"}
	acquireFromGo  = trialOf(goBench{"tests/bench", "AcquireLastWriter"}).figure("ns/acquire", inTime)

	// bareClaim is an acquire's reads, writes and wait by the system's calls alone: what
	// no acquire by lastwriter can do without.
	bareClaim = python{script: "acquire.py", args: []string{"floor"}}

	ourAcquire   = mops("acquire.py", "ours")
	mopsAcquire  = mops("acquire.py", "theirs")
	mopsRenewCPU = mops("renew.py", "theirs-cpu")

	leaseRows = []row{
		{
			what: "acquire + release, lastwriter, directory in memory / the same verbs and wait, bare",
			ours: onTmpfs{acquireRelease}, beside: onTmpfs{bareVerbs}, budget: times(2),
		},
		{what: "acquire + release, lastwriter, directory on disk / the same verbs and wait, bare", ours: acquireRelease, beside: bareVerbs},
		{what: "put on a directory / temporary file + rename", ours: goBench{"tests/bench", "Directory/Put"}, beside: goBench{"tests/bench", "Directory/PutBare"}},
		{what: "get on a directory / reading the file", ours: goBench{"tests/bench", "Directory/Get"}, beside: goBench{"tests/bench", "Directory/GetBare"}},
		{what: "create on a directory / file + fsync + link", ours: goBench{"tests/bench", "Directory/Create"}, beside: goBench{"tests/bench", "Directory/CreateBare"}},
		{what: "mopslock.mops.acquire, directory in memory / mops' own acquire", ours: onTmpfs{ourAcquire}, beside: onTmpfs{mopsAcquire}, budget: times(0.4)},
		{what: "mopslock.mops.acquire, directory in memory / its bare verbs and wait, from Python", ours: onTmpfs{ourAcquire}, beside: onTmpfs{bareClaim}, budget: times(4)},
		{what: "mopslock.mops.acquire, directory in memory / mops' own without its traces", ours: onTmpfs{ourAcquire}, beside: onTmpfs{mops("acquire.py", "bare")}},
		{what: "acquire, lastwriter, directory in memory, from Go / mops' own acquire", ours: onTmpfs{acquireFromGo}, beside: onTmpfs{mopsAcquire}, budget: times(0.33)},
		{what: "acquire, lastwriter, directory in memory, from Go / its bare verbs and wait, from Python", ours: onTmpfs{acquireFromGo}, beside: onTmpfs{bareClaim}, budget: times(3)},
		{what: "an acquire's bare verbs and wait, from Python, in memory / mops' own acquire", ours: onTmpfs{bareClaim}, beside: onTmpfs{mopsAcquire}},
		{what: "mopslock.mops.acquire, directory on disk / its bare verbs and wait, from Python", ours: ourAcquire, beside: bareClaim, budget: times(2)},
		{what: "mopslock.mops.acquire, directory on disk / mops' own acquire", ours: ourAcquire, beside: mopsAcquire},
		{what: "an acquire's bare verbs and wait, from Python, on disk / mops' own acquire", ours: bareClaim, beside: mopsAcquire},
		{what: "mopslock.lease(file://).acquire, strict, on disk / mops' own acquire", ours: mops("acquire.py", "url"), beside: mopsAcquire},
		{what: "renewal, own store, stepped from Python one by one / mops' maintain", ours: mops("renew.py", "ours"), beside: mops("renew.py", "theirs")},
		{what: "renewal, own store, of 500 leases, CPU / mops' maintain, CPU", ours: mops("renew.py", "own-cpu"), beside: mopsRenewCPU},
		{what: "renewal, file://, of 500 leases, CPU / mops' maintain, CPU", ours: mops("renew.py", "url-cpu"), beside: mopsRenewCPU},
		{
			what: "acquire + release, strict, of one name, file:// in memory, p99 of the last of 10,000 / of the first thousand",
			ours: onTmpfs{packaged("again.py", "url", "10000")}, beside: onTmpfs{packaged("again.py", "url", "1000")}, budget: times(2), rounds: 3,
		},
		{
			what: "acquire + release, strict, of one name, own store in memory, p99 of the last of 10,000 / of the first thousand",
			ours: onTmpfs{packaged("again.py", "own", "10000")}, beside: onTmpfs{packaged("again.py", "own", "1000")}, budget: times(2), rounds: 3,
		},
	}
)
