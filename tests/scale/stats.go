package main

import (
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
)

// samples keeps durations: a few million at most.
type samples []time.Duration

func (s *samples) add(d int64) { *s = append(*s, time.Duration(d)) }

// least and most are 0 where there are none.
func (s samples) most() time.Duration { return s.quantile(100) }

func (s samples) least() time.Duration {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// quantile puts them in order.
func (s samples) quantile(percent int) time.Duration {
	slices.Sort(s)
	return doctor.Quantile(s, percent)
}

// second counts the requests to the store in one second.
type second struct {
	asked     [2]int32 // writes, reads
	throttled int32
}

// shares of the leases, in hundredths: the report tells when each was held.
var shares = [...]int{50, 90, 99, 100}

// stats are the results of a run. All but the series, what is held and when it first was
// is counted in the window that the plan says.
type stats struct {
	from  int64
	steps uint64 // of clients, in all

	verbs     [core.ActionDelete + 1]int64 // requests that were sent
	asked     [2]int64                     // that reached the store: writes, reads
	throttled [2]int64
	late      samples // from when a session's renewal had to begin to when it was good
	left      samples // what was left to the deadline then
	intervals samples // from a beat to the next one that is not a retry
	retried   int64   // renewals that took more than a put and an exists
	acquired  samples // names that nobody held
	handover  samples
	takeover  samples
	dead      int64 // sessions that were lost
	losses    int64 // leases that were
	refusals  int64
	overlaps  int64 // names held by two
	busiest   int32 // requests of one session in a second
	series    []second
	peak      [2]int64 // of any partition in a second

	holding int
	mostly  [len(shares)]time.Duration // when these shares were held, or 0
	wanted  int
}

func newStats(p *plan) stats {
	return stats{from: int64(p.from()), wanted: p.leases, series: make([]second, p.end()/time.Second+1)}
}

func (s *stats) counts(now int64) bool { return now >= s.from }

// offered counts a request that has reached the store.
func (s *stats) offered(now int64, writes, admitted bool) {
	at, i := &s.series[now/int64(time.Second)], sideOf(writes)
	at.asked[i]++
	if !admitted {
		at.throttled++
	}
	if s.counts(now) {
		s.asked[i]++
		if !admitted {
			s.throttled[i]++
		}
	}
}

// request counts one that is sent. The first put of a session's renewal is sent when it is due.
func (s *stats) request(now int64, h *host, a *core.Action) {
	s.count(now, &s.verbs[a.Kind])
	if a.Claim != 0 || !strings.HasPrefix(a.Key, core.SessionPrefix) {
		return
	}
	h.beats++
	if a.Kind == core.ActionPut {
		if len(h.client.Sessions) > 0 && h.due == 0 {
			h.due = now
			s.sample(now, &s.intervals, now-h.put)
		}
		h.put = now
	}
	if at := int32(now / int64(time.Second)); h.second != at {
		h.second, h.sent = at, 0
	}
	h.sent++
	s.busiest = max(s.busiest, h.sent)
}

func (s *stats) renewed(now int64, h *host, until int64) {
	if !s.counts(now) {
		return
	}
	s.late.add(now - h.due)
	s.left.add(until - now)
	if h.beats != 2 {
		s.retried++
	}
}

func (s *stats) held(now, waited int64, byWaiting bool) {
	if s.holding++; !byWaiting {
		s.sample(now, &s.acquired, waited)
	}
	for i, share := range shares {
		if s.mostly[i] == 0 && s.holding >= (s.wanted*share+99)/100 {
			s.mostly[i] = time.Duration(now)
		}
	}
}

// sample and count take what happens now to what they are given, in the window.
func (s *stats) sample(now int64, of *samples, d int64) {
	if s.counts(now) {
		of.add(d)
	}
}

func (s *stats) count(now int64, of *int64) {
	if s.counts(now) {
		*of++
	}
}

// writers and readers are the requests that cost as a put and as a get.
func (s *stats) writers() int64 {
	return s.verbs[core.ActionPut] + s.verbs[core.ActionCreate] + s.verbs[core.ActionList]
}

func (s *stats) readers() int64 { return s.verbs[core.ActionGet] + s.verbs[core.ActionExists] }

// busiestSecond is the most of a kind in a second of [from, to).
func (s *stats) busiestSecond(from, to time.Duration, of func(*second) int32) int32 {
	most := int32(0)
	for i := max(0, int(from/time.Second)); i < min(len(s.series), int(to/time.Second)); i++ {
		most = max(most, of(&s.series[i]))
	}
	return most
}

func (x *second) all() int32 { return x.asked[0] + x.asked[1] }

func (x *second) writes() int32 { return x.asked[0] }
