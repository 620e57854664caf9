package main

import (
	"hash/fnv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// cloud is a store of a kind: how many requests a second it takes, and how long it takes for each.
type cloud struct {
	name string
	// Limits of a partition, requests a second; 0 is none. All is of all together.
	writes, reads, all int64
	// Limits of one object: writes, and requests of any kind.
	objectWrites, objectAll int64
	put, get, list          latency
}

const ms = time.Millisecond

// The latencies are assumed. Throttled answers take as long as others.
var (
	s3 = cloud{
		name: "S3", writes: 3500, reads: 5500,
		put: latency{30 * ms, 60 * ms, 150 * ms, 600 * ms}, get: latency{15 * ms, 35 * ms, 100 * ms, 400 * ms}, list: latency{40 * ms, 80 * ms, 200 * ms, 800 * ms},
	}
	gcs = cloud{
		name: "GCS", writes: 1000, reads: 5000, objectWrites: 1,
		put: latency{50 * ms, 90 * ms, 200 * ms, 800 * ms}, get: latency{25 * ms, 50 * ms, 120 * ms, 500 * ms}, list: latency{50 * ms, 90 * ms, 200 * ms, 800 * ms},
	}
	azure = cloud{
		name: "Azure", all: 20_000, objectAll: 500,
		put: latency{20 * ms, 45 * ms, 120 * ms, 500 * ms}, get: latency{10 * ms, 25 * ms, 80 * ms, 300 * ms}, list: latency{25 * ms, 50 * ms, 150 * ms, 600 * ms},
	}
)

// latency is how long requests take: straight between these quantiles, from half
// the median, and up to twice the last.
type latency struct{ p50, p90, p99, p999 time.Duration }

func (l latency) draw(c world.Chance) int64 {
	u, from, low := int64(c.Below(1_000_000)), l.p50/2, int64(0)
	for _, step := range [...]struct {
		to   time.Duration
		high int64
	}{{l.p50, 500_000}, {l.p90, 900_000}, {l.p99, 990_000}, {l.p999, 999_000}, {2 * l.p999, 1_000_000}} {
		if u < step.high {
			return int64(from) + int64(step.to-from)*(u-low)/(step.high-low)
		}
		from, low = step.to, step.high
	}
	return int64(from)
}

func (c *cloud) latencyOf(verb core.ActionKind) latency {
	switch verb {
	case core.ActionGet, core.ActionExists:
		return c.get
	case core.ActionList:
		return c.list
	}
	return c.put
}

// grown is the same cloud when its partitions take 8 times as much.
func (c cloud) grown() cloud {
	const times = 8
	c.writes, c.reads, c.all = times*c.writes, times*c.reads, times*c.all
	return c
}

// scaled is the cloud for a smaller fleet: limits of partitions in proportion.
func (c cloud) scaled(part, of int64) cloud {
	share := func(limit int64) int64 {
		if limit == 0 {
			return 0
		}
		return max(1, limit*part/of)
	}
	c.writes, c.reads, c.all = share(c.writes), share(c.reads), share(c.all)
	return c
}

// valve lets a number of requests a second through, evenly but for a burst. It is the
// time at which the last that was let through would have come, had they come evenly.
type valve int64

// burst is how much of a second may come at once.
const burst = int64(100 * time.Millisecond)

func (v *valve) admits(now, rate, ahead int64) bool { return rate == 0 || int64(*v) <= now+ahead }

func (v *valve) take(now, rate int64) {
	if rate > 0 {
		*v = valve(max(int64(*v), now) + int64(time.Second)/rate)
	}
}

// valves are of one object.
type valves struct{ writes, all valve }

// prefix is one of a store's, with all that lies below it.
type prefix struct {
	store      *world.Store
	partitions []partition
	valves     map[string]*valves
	names      []*name // that a slot wants
}

// valvesOf is what limits an object, or nil. Those of a name are written once.
func (x *prefix) valvesOf(c *cloud, key string) *valves {
	if c.objectWrites+c.objectAll == 0 || !strings.HasPrefix(key, core.RegisterDir) {
		return nil
	}
	v := x.valves[key]
	if v == nil {
		v = &valves{}
		x.valves[key] = v
	}
	return v
}

// partition is the one in which a key lies: all of a name are in one.
func (x *prefix) partition(key string) *partition {
	name, _, _ := strings.Cut(key, world.Registers)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(strings.TrimSuffix(name, "/"+core.LockFile)))
	return &x.partitions[int(hash.Sum32()%uint32(len(x.partitions)))]
}

// partition is what a store scales by: a range of keys with limits of its own.
type partition struct {
	writes, reads, all valve
	second             int64 // of the counts below
	offered            [2]int64
	peak               [2]int64 // the most that were offered in a second: writes, reads
}

// admit takes a request to a partition and to an object of it, or throttles it.
func (p *partition) admit(c *cloud, o *valves, writes bool, now int64) bool {
	v, rate := &p.reads, c.reads
	if writes {
		v, rate = &p.writes, c.writes
	}
	if !v.admits(now, rate, burst) || !p.all.admits(now, c.all, burst) {
		return false
	}
	if o != nil {
		if writes && !o.writes.admits(now, c.objectWrites, 0) || !o.all.admits(now, c.objectAll, burst) {
			return false
		}
		if writes {
			o.writes.take(now, c.objectWrites)
		}
		o.all.take(now, c.objectAll)
	}
	v.take(now, rate)
	p.all.take(now, c.all)
	return true
}

// sideOf is where writes and reads are counted.
func sideOf(writes bool) int {
	if writes {
		return 0
	}
	return 1
}

// count counts a request to a partition in its second, among those that are measured.
func (p *partition) count(writes bool, now int64) {
	if second := now / int64(time.Second); p.second != second {
		p.second, p.offered = second, [2]int64{}
	}
	i := sideOf(writes)
	p.offered[i]++
	p.peak[i] = max(p.peak[i], p.offered[i])
}
