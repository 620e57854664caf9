package world

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Epoch is the wall clock at true time 0: 2026-01-02T03:04:05Z.
const Epoch = 1767323045 * int64(time.Second)

// Store keeps objects in memory, changes them in place, and is fast with a million names. It
// knows six verbs, each applied at one instant.
type Store struct {
	unit   int64                // of the stamps
	keep   int64                // how long what was there before is remembered
	groups map[string][]*object // in order of their keys
}

// object is what is under a key, and was before.
type object struct {
	key     string
	body    []byte
	stamp   int64
	there   bool
	since   int64 // true time
	earlier []object
}

// NewStore is an empty one.
func NewStore(unit, keep time.Duration) *Store {
	return &Store{unit: max(1, int64(unit)), keep: int64(keep), groups: map[string][]*object{}}
}

// group is the part of a key below which lists are made: of a name, or of a session.
func group(key string) string {
	if i := strings.LastIndex(key, Registers); i >= 0 {
		return key[:i+len(Registers)]
	}
	if end := len(core.SessionPrefix) + 37; strings.HasPrefix(key, core.SessionPrefix) && len(key) >= end {
		return key[:end]
	}
	return key[:strings.LastIndexByte(key, '/')+1]
}

// find is the place of an object in its group, and the object if there is one or was.
func (s *Store) find(key string) (all []*object, at int, o *object) {
	all = s.groups[group(key)]
	at, known := slices.BinarySearchFunc(all, key, func(o *object, key string) int { return cmp.Compare(o.key, key) })
	if known {
		o = all[at]
	}
	return all, at, o
}

// Has reports whether there is an object.
func (s *Store) Has(key string) bool {
	_, _, o := s.find(key)
	return o != nil && o.there
}

// Apply does what a request asks at true time now, and returns its answer. ahead is how far
// the clock that stamps is from the true one, and lag how old what a get shows may be.
func (s *Store) Apply(now int64, a *core.Action, ahead, lag int64) core.Event {
	answer := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	all, at, o := s.find(a.Key)
	there := o != nil && o.there
	switch a.Kind {
	case core.ActionGet:
		if seen := o.at(now - lag); seen != nil && seen.there {
			answer.Body, answer.Stamp = seen.body, seen.stamp
			break
		}
		answer.Outcome = core.OutcomeNo
	case core.ActionExists:
		if !there {
			answer.Outcome = core.OutcomeNo
			break
		}
		answer.Stamp = o.stamp
	case core.ActionCreate, core.ActionPut:
		if a.Kind == core.ActionCreate && there || a.Overwrites && !s.hasDirectory(a.Key) {
			answer.Outcome = core.OutcomeNo
			break
		}
		if o == nil {
			o = &object{key: strings.Clone(a.Key)}
			s.groups[group(o.key)] = slices.Insert(all, at, o)
		} else {
			s.remember(o, now)
		}
		stamp := Epoch + now + ahead
		o.body, o.stamp, o.there, o.since = a.Body, stamp-stamp%s.unit, true, now
		answer.Stamp = o.stamp
	case core.ActionDelete:
		switch {
		case !there:
		case s.keep == 0:
			s.groups[group(a.Key)] = slices.Delete(all, at, at+1)
		default:
			s.remember(o, now)
			o.body, o.there, o.since = nil, false, now
		}
	case core.ActionList:
		answer.Entries, answer.More = list(all, a)
	}
	return answer
}

// hasDirectory reports whether a directory would have a place for an object: where the last
// one is removed from it, it goes as well.
func (s *Store) hasDirectory(key string) bool {
	above := key[:strings.LastIndexByte(key, '/')+1]
	return slices.ContainsFunc(s.groups[group(key)], func(o *object) bool { return o.there && strings.HasPrefix(o.key, above) })
}

// at is what stood there at a true time, or nil.
func (o *object) at(when int64) *object {
	if o == nil || when >= o.since {
		return o
	}
	for i := len(o.earlier) - 1; i >= 0; i-- {
		if when >= o.earlier[i].since {
			return &o.earlier[i]
		}
	}
	return nil
}

// remember keeps what an object was for as long as a read can show it.
func (s *Store) remember(o *object, now int64) {
	if s.keep == 0 {
		return
	}
	was := *o
	was.earlier = nil
	o.earlier = append(o.earlier, was)
	for len(o.earlier) > 1 && o.earlier[1].since < now-s.keep {
		o.earlier = o.earlier[1:]
	}
}

func list(all []*object, a *core.Action) (entries []core.Entry, more bool) {
	for _, o := range all {
		if !o.there || o.key <= a.After || !strings.HasPrefix(o.key, a.Key) {
			continue
		}
		if uint64(len(entries)) == a.Count {
			return entries, true
		}
		entries = append(entries, core.Entry{Key: []byte(o.key), Stamp: o.stamp})
	}
	return entries, false
}
