package explore

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// blobs is a linearizable blob store with create-if-absent and one clock, whose
// stamps are floored to unit.
type blobs struct {
	unit    int64
	objects []blob // in order of their keys
}

type blob struct {
	key   string
	body  []byte
	stamp int64
}

func newBlobs(unit int64) *blobs { return &blobs{unit: unit} }

// Choices implements Store: there is one way.
func (b *blobs) Choices(*core.Action, bool) int { return 1 }

// Apply implements Store.
func (b *blobs) Apply(now int64, a *core.Action, _ int) (Store, core.Event) {
	reply := core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeYes}
	i, there := b.find(a.Key)
	switch a.Kind {
	case core.ActionPut, core.ActionCreate, core.ActionCreateResult, core.ActionPutResult:
		if there && (a.Kind == core.ActionCreate || a.Kind == core.ActionCreateResult) {
			reply.Outcome = core.OutcomeNo
			return b, reply
		}
		o := blob{a.Key, a.Body, now / b.unit * b.unit}
		reply.Stamp = o.stamp
		next := &blobs{unit: b.unit, objects: slices.Clone(b.objects)}
		if there {
			next.objects[i] = o
		} else {
			next.objects = slices.Insert(next.objects, i, o)
		}
		return next, reply
	case core.ActionDelete:
		if !there {
			return b, reply
		}
		return &blobs{unit: b.unit, objects: slices.Delete(slices.Clone(b.objects), i, i+1)}, reply
	case core.ActionList:
		reply.Entries, reply.More = b.list(a)
	case core.ActionGet, core.ActionExists:
		if !there {
			reply.Outcome = core.OutcomeNo
			return b, reply
		}
		reply.Stamp = b.objects[i].stamp
		if a.Kind == core.ActionGet {
			reply.Body = b.objects[i].body
		}
	}
	return b, reply
}

func (b *blobs) find(key string) (int, bool) {
	return slices.BinarySearchFunc(b.objects, key, func(o blob, key string) int { return strings.Compare(o.key, key) })
}

// Object implements Keeper.
func (b *blobs) Object(key string) []byte {
	if i, there := b.find(key); there {
		return b.objects[i].body
	}
	return nil
}

func (b *blobs) list(a *core.Action) (entries []core.Entry, more bool) {
	for i := range b.objects {
		o := &b.objects[i]
		if !strings.HasPrefix(o.key, a.Key) || o.key <= a.After {
			continue
		}
		if uint64(len(entries)) == a.Count {
			return entries, true
		}
		entries = append(entries, core.Entry{Key: []byte(o.key), Stamp: o.stamp})
	}
	return entries, false
}

// AppendState implements Store.
func (b *blobs) AppendState(dst []byte) []byte {
	for i := range b.objects {
		o := &b.objects[i]
		dst = append(append(dst, o.key...), 0)
		dst = append(binary.AppendUvarint(dst, uint64(len(o.body))), o.body...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(o.stamp))
	}
	return dst
}

// registers is the segment below which the strict protocol keeps a name.
const registers = "/_mopslock/"

// Version implements Versioned for the keys and bodies of strict.
func (b *blobs) Version(a *core.Action) (name string, epoch core.Epoch, tenure string, ok bool) {
	name, rest, _ := strings.Cut(a.Key, registers)
	epoch, ok = versionOf(rest)
	if a.Kind != core.ActionCreate || !ok {
		return "", 0, "", false
	}
	var body struct{ State, Tenure string }
	if json.Unmarshal(a.Body, &body) == nil && body.State == "held" {
		tenure = body.Tenure
	}
	return name, epoch, tenure, true
}

// Newest implements Versioned.
func (b *blobs) Newest(name string) core.Epoch {
	for i := range b.objects {
		if rest, found := strings.CutPrefix(b.objects[i].key, name+registers); found {
			if epoch, ok := versionOf(rest); ok {
				return epoch // they stand newest first
			}
		}
	}
	return 0
}

// versionOf reads what follows registers in the key of a version.
func versionOf(rest string) (core.Epoch, bool) {
	digits, ok := strings.CutSuffix(rest, "/v")
	inverse, err := strconv.ParseUint(digits, 16, 64)
	return core.Epoch(math.MaxUint64 - inverse), ok && err == nil
}
