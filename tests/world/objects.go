package world

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// Objects is a store as a map, which a test may look into and change as it likes.
type Objects map[string]Object

// Object is what is under a key.
type Object struct {
	Body  []byte
	Stamp int64
}

// Apply lets a request happen, and gives what it writes that stamp. Whether there is a directory
// for what it writes over is for others to say.
func (s Objects) Apply(stamp int64, a *core.Action) core.Event {
	reply := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	o, there := s[a.Key]
	switch a.Kind {
	case core.ActionList:
		for _, key := range slices.Sorted(maps.Keys(s)) {
			switch {
			case !strings.HasPrefix(key, a.Key) || key <= a.After:
			case uint64(len(reply.Entries)) == a.Count:
				reply.More = true
				return reply
			default:
				reply.Entries = append(reply.Entries, core.Entry{Key: []byte(key), Stamp: s[key].Stamp})
			}
		}
	case core.ActionDelete:
		delete(s, a.Key)
	case core.ActionGet, core.ActionExists:
		if !there {
			reply.Outcome = core.OutcomeNo
		} else if a.Kind == core.ActionGet {
			reply.Body, reply.Stamp = o.Body, o.Stamp
		}
	default:
		if there && (a.Kind == core.ActionCreate || a.Kind == core.ActionCreateResult) {
			reply.Outcome = core.OutcomeNo
			break
		}
		s[a.Key] = Object{bytes.Clone(a.Body), stamp}
	}
	return reply
}

// HasDirectory reports whether a directory would have a place for an object.
func (s Objects) HasDirectory(key string) bool {
	above := key[:strings.LastIndexByte(key, '/')+1]
	for other := range s {
		if strings.HasPrefix(other, above) {
			return true
		}
	}
	return false
}
