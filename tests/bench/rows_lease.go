package main

var (
	mopsAcquire  = mops("acquire.py", "theirs")
	mopsRenewCPU = mops("renew.py", "theirs-cpu")

	leaseRows = []row{
		{
			what: "acquire + release, lastwriter, directory / the same verbs and wait, bare", budget: times(1.3),
			ours: goBench{"tests/bench", "AcquireRelease"}, beside: goBench{"tests/bench", "BareVerbs"},
		},
		{what: "put on a directory / temporary file + rename", ours: goBench{"host/store/local", "Put"}, beside: goBench{"host/store/local", "PutBare"}},
		{what: "get on a directory / reading the file", ours: goBench{"host/store/local", "Get"}, beside: goBench{"host/store/local", "GetBare"}},
		{what: "create on a directory / file + fsync + link", ours: goBench{"host/store/local", "Create"}, beside: goBench{"host/store/local", "CreateBare"}},
		{what: "mopslock.mops.acquire / mops' own acquire", ours: mops("acquire.py", "ours"), beside: mopsAcquire, budget: times(0.25)},
		{what: "mopslock.mops.acquire / its bare verbs and wait, from Python", ours: mops("acquire.py", "ours"), beside: mops("acquire.py", "floor"), budget: times(2)},
		{what: "mopslock.mops.acquire / mops' own without its traces", ours: mops("acquire.py", "ours"), beside: mops("acquire.py", "bare")},
		{what: "an acquire's bare verbs and wait, from Python / mops' own acquire", ours: mops("acquire.py", "floor"), beside: mopsAcquire},
		{what: "mopslock.lease(file://).acquire / mops' own acquire", ours: mops("acquire.py", "url"), beside: mopsAcquire},
		{what: "renewal, own store, stepped from Python one by one / mops' maintain", ours: mops("renew.py", "ours"), beside: mops("renew.py", "theirs")},
		{what: "renewal, own store, of 500 leases, CPU / mops' maintain, CPU", ours: mops("renew.py", "own-cpu"), beside: mopsRenewCPU},
		{what: "renewal, file://, of 500 leases, CPU / mops' maintain, CPU", ours: mops("renew.py", "url-cpu"), beside: mopsRenewCPU},
		{what: "check() of a held lease, file:// / own store", ours: packaged("check.py", "url"), beside: packaged("check.py", "own")},
	}
)
