package main

import "time"

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

// partition is what a store scales by: a range of keys with limits of its own.
type partition struct {
	writes, reads, all valve
	second             int64 // of the counts below
	offered            [2]int64
	peak               [2]int64 // the most that were offered in a second: writes, reads
}

// admit takes a request to a partition and to an object of it, or throttles it.
func (p *partition) admit(c *cloud, o *object, writes bool, now int64) bool {
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

// count counts a request to a partition in its second, among those that are measured.
func (p *partition) count(writes bool, now int64) {
	if second := now / int64(time.Second); p.second != second {
		p.second, p.offered = second, [2]int64{}
	}
	i := 1
	if writes {
		i = 0
	}
	p.offered[i]++
	p.peak[i] = max(p.peak[i], p.offered[i])
}
