package simulate

import (
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// object is what the store holds under a key, and held before.
type object struct {
	key     string
	body    []byte
	stamp   int64
	there   bool
	since   int64 // true time
	earlier []object
}

// store keeps objects in memory. It knows six verbs, each applied at one instant.
type store struct {
	objects map[string]*object
	keys    []string // of those that are there, in byte order
	unit    int64    // of the stamps
	keep    int64    // how long what was there before is remembered
}

func newStore(f *Faults) store {
	return store{objects: map[string]*object{}, unit: max(1, int64(f.StampUnit)), keep: int64(f.Stale)}
}

// apply does what a request asks at true time now, and returns its answer.
// ahead is how far the clock of the front-end is from the store's, and lag how
// old what a get shows may be.
func (s *store) apply(a *core.Action, now, ahead, lag int64) core.Event {
	answer := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	there := s.objects[a.Key] != nil && s.objects[a.Key].there
	switch a.Kind {
	case core.ActionGet:
		seen := s.at(a.Key, now-lag)
		if seen == nil || !seen.there {
			answer.Outcome = core.OutcomeNo
			break
		}
		answer.Body, answer.Stamp = seen.body, seen.stamp
	case core.ActionExists:
		if !there {
			answer.Outcome = core.OutcomeNo
			break
		}
		answer.Stamp = s.objects[a.Key].stamp
	case core.ActionCreate:
		if there {
			answer.Outcome = core.OutcomeNo
			break
		}
		answer.Stamp = s.write(a, now, ahead)
	case core.ActionPut:
		if a.Overwrites && !s.hasDirectory(a.Key) {
			answer.Outcome = core.OutcomeNo
			break
		}
		answer.Stamp = s.write(a, now, ahead)
	case core.ActionDelete:
		s.remove(a.Key, now)
	case core.ActionList:
		answer.Entries, answer.More = s.list(a)
	}
	return answer
}

// hasDirectory reports whether a directory would have a place for an object: where the last
// one is removed from it, it goes as well.
func (s *store) hasDirectory(key string) bool {
	above := key[:strings.LastIndexByte(key, '/')+1]
	i, _ := slices.BinarySearch(s.keys, above)
	return i < len(s.keys) && strings.HasPrefix(s.keys[i], above)
}

// at is what stood under a key at a true time, or nil.
func (s *store) at(key string, when int64) *object {
	o := s.objects[key]
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

func (s *store) write(a *core.Action, now, ahead int64) int64 {
	o := s.slot(a.Key, now)
	if !o.there {
		i, _ := slices.BinarySearch(s.keys, a.Key)
		s.keys = slices.Insert(s.keys, i, o.key)
	}
	stamp := epoch + now + ahead
	o.body, o.stamp, o.there, o.since = a.Body, stamp-stamp%s.unit, true, now
	return o.stamp
}

func (s *store) remove(key string, now int64) {
	if o := s.objects[key]; o == nil || !o.there {
		return
	}
	o := s.slot(key, now)
	i, _ := slices.BinarySearch(s.keys, key)
	s.keys = slices.Delete(s.keys, i, i+1)
	if s.keep == 0 {
		delete(s.objects, key)
		return
	}
	o.body, o.there, o.since = nil, false, now
}

// slot is the object under a key, about to change; what it was is remembered
// for as long as a read can show it.
func (s *store) slot(key string, now int64) *object {
	o := s.objects[key]
	if o == nil {
		o = &object{key: strings.Clone(key), since: now}
		s.objects[o.key] = o
		return o
	}
	if s.keep > 0 {
		was := *o
		was.earlier = nil
		o.earlier = append(o.earlier, was)
		for len(o.earlier) > 1 && o.earlier[1].since < now-s.keep {
			o.earlier = o.earlier[1:]
		}
	}
	return o
}

func (s *store) list(a *core.Action) (entries []core.Entry, more bool) {
	i, _ := slices.BinarySearch(s.keys, max(a.Key, a.After+"\x00")) // the next key after After
	for ; i < len(s.keys) && strings.HasPrefix(s.keys[i], a.Key); i++ {
		if uint64(len(entries)) == a.Count {
			return entries, true
		}
		entries = append(entries, core.Entry{Key: []byte(s.keys[i]), Stamp: s.objects[s.keys[i]].stamp})
	}
	return entries, false
}
