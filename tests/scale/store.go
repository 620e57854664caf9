package main

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// object is one that is written again and again: a beat, a sample of the clock, the card.
type object struct {
	body   []byte
	stamp  int64
	there  bool
	writes valve
	all    valve
}

// version is one version of a name.
type version struct {
	body  []byte
	stamp int64
	there bool
}

// register is a name with its versions, and the slots that want it. A name that no
// slot wants or holds any more is forgotten, with its versions: no slot would ask
// for them again.
type register struct {
	name     string
	shard    int
	bucket   uint64
	versions []version // of epoch 1 and up
	at       int       // in the world's list of names, or -1

	wanted int   // slots that hold it or ask for it
	holder *slot // that believes to hold it
	waiter *slot
	freed  int64 // when it was given back, or its holder died
	dead   bool  // it was the latter
}

// store keeps the objects of all prefixes. It knows six verbs, each applied at one
// instant.
type store struct {
	objects map[string]*object // by shard and key
	stamps  int64              // their unit
}

const (
	registerDir  = "/" + core.RegisterDir + "/"
	epochDigits  = 16
	sessionIDEnd = len(core.SessionPrefix) + 36
)

// epochOf is the version that a key below a name is of; 0 is none: lock.json.
func epochOf(r *register, key string) core.Epoch {
	from := len(r.name) + len(registerDir)
	if len(key) != from+epochDigits+len("/v") {
		return 0
	}
	inverse, err := strconv.ParseUint(key[from:from+epochDigits], 16, 64)
	if err != nil {
		panic("scale: key " + key)
	}
	return core.Epoch(^inverse)
}

func keyOf(r *register, epoch int) []byte {
	const hex = "0123456789abcdef"
	key := make([]byte, 0, len(r.name)+len(registerDir)+epochDigits+2)
	key = append(append(key, r.name...), registerDir...)
	for inverse, shift := ^uint64(epoch), 60; shift >= 0; shift -= 4 {
		key = append(key, hex[inverse>>shift&15])
	}
	return append(key, "/v"...)
}

// stampAt is how the store dates what it writes now.
func (s *store) stampAt(now int64) int64 {
	const began = 1_800_000_000 * int64(time.Second)
	stamp := began + now
	return stamp - stamp%s.stamps
}

// applyVersion does what a request asks of a name's objects, and puts the answer in it.
func (s *store) applyVersion(r *request, now int64) {
	reg := r.register
	if r.verb == core.ActionList {
		r.list(reg)
		return
	}
	n := int(epochOf(reg, r.key))
	there := n > 0 && n <= len(reg.versions) && reg.versions[n-1].there
	switch {
	case r.verb == core.ActionCreate && !there && n > 0:
		for len(reg.versions) < n {
			reg.versions = append(reg.versions, version{})
		}
		reg.versions[n-1] = version{body: bytes.Clone(r.body), stamp: s.stampAt(now), there: true}
		r.stamp = reg.versions[n-1].stamp
	case r.verb == core.ActionDelete && there:
		reg.versions[n-1] = version{}
	case r.verb == core.ActionDelete:
	case r.verb == core.ActionCreate || !there:
		r.outcome = core.OutcomeNo
	case r.verb == core.ActionGet:
		r.body, r.stamp = append(r.body[:0], reg.versions[n-1].body...), reg.versions[n-1].stamp
	case r.verb == core.ActionExists:
		r.stamp = reg.versions[n-1].stamp
	default:
		panic("scale: a version is asked to " + r.verb.String())
	}
}

// list answers with versions, newest first, as their keys are in order.
func (r *request) list(reg *register) {
	r.entries = r.entries[:0]
	for n := len(reg.versions); n > 0; n-- {
		v := &reg.versions[n-1]
		if !v.there {
			continue
		}
		key := keyOf(reg, n)
		if string(key) <= r.after {
			continue
		}
		if uint64(len(r.entries)) == r.count {
			r.more = true
			return
		}
		r.entries = append(r.entries, core.Entry{Key: key, Stamp: v.stamp})
	}
}

// applyObject does what a request asks of any other object.
func (s *store) applyObject(r *request, now int64) {
	o := r.object
	switch r.verb {
	case core.ActionPut, core.ActionCreate:
		if r.verb == core.ActionCreate && o.there {
			r.outcome = core.OutcomeNo
			return
		}
		o.body, o.stamp, o.there = append(o.body[:0], r.body...), s.stampAt(now), true
		r.stamp = o.stamp
	case core.ActionGet, core.ActionExists:
		if !o.there {
			r.outcome = core.OutcomeNo
			return
		}
		r.stamp = o.stamp
		if r.verb == core.ActionGet {
			r.body = append(r.body[:0], o.body...)
		}
	case core.ActionDelete:
		o.there = false
	default:
		panic("scale: " + r.key + " is asked to " + r.verb.String())
	}
}

// aim finds what a request is about, and in which partition that lies. There are no
// calls to a session here, since no lease is broken: the answer to a question for one is no.
func (w *world) aim(r *request) {
	shard := r.unit.host.shard
	splits := w.plan.splits
	bucket := uint64(0)
	switch {
	case strings.HasPrefix(r.key, core.SessionPrefix):
		if !strings.HasPrefix(r.key[sessionIDEnd:], "/call/") {
			r.object = w.objectAt(r.key)
		}
		bucket = digit(r.key[len(core.SessionPrefix)])
	case strings.HasPrefix(r.key, core.StoreClockPrefix):
		r.object = w.objectAt(r.key)
		bucket = digit(r.key[len(core.StoreClockPrefix)])
	case strings.HasPrefix(r.key, triedPrefix):
		r.object = w.objectAt(r.key)
		bucket = digit(r.key[len(triedPrefix)])
	case strings.HasPrefix(r.key, core.RegisterDir):
		r.object = w.cards[shard]
	default:
		r.register = r.unit.slot.register
		shard, bucket = r.register.shard, r.register.bucket
	}
	r.partition = &w.partitions[shard*splits+int(bucket)%splits]
}

// digit is the value of a hexadecimal digit.
func digit(c byte) uint64 {
	if c >= 'a' {
		return uint64(c-'a') + 10
	}
	return uint64(c - '0')
}

func (w *world) objectAt(key string) *object {
	o := w.store.objects[key]
	if o == nil {
		o = &object{}
		w.store.objects[strings.Clone(key)] = o
	}
	return o
}
