package world

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// Blobs is a linearizable blob store with create-if-absent and one clock, whose
// stamps are floored to Unit. It is never changed: Apply answers with the next one.
type Blobs struct {
	Unit    int64
	objects []blob // in order of their keys
}

type blob struct {
	key   string
	body  []byte
	stamp int64
}

// NewBlobs is an empty one.
func NewBlobs(unit int64) *Blobs { return &Blobs{Unit: unit} }

// Apply lets a request happen at an instant of the store's clock.
func (b *Blobs) Apply(now int64, a *core.Action) (*Blobs, core.Event) {
	reply := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	i, there := b.find(a.Key)
	switch a.Kind {
	case core.ActionPut, core.ActionCreate, core.ActionCreateResult, core.ActionPutResult:
		if there && (a.Kind == core.ActionCreate || a.Kind == core.ActionCreateResult) {
			reply.Outcome = core.OutcomeNo
			return b, reply
		}
		o := blob{a.Key, a.Body, now / b.Unit * b.Unit}
		reply.Stamp = o.stamp
		next := &Blobs{Unit: b.Unit, objects: slices.Clone(b.objects)}
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
		return &Blobs{Unit: b.Unit, objects: slices.Delete(slices.Clone(b.objects), i, i+1)}, reply
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

func (b *Blobs) find(key string) (int, bool) {
	return slices.BinarySearchFunc(b.objects, key, func(o blob, key string) int { return strings.Compare(o.key, key) })
}

// Object is the body of an object, or nil if there is none.
func (b *Blobs) Object(key string) []byte {
	if i, there := b.find(key); there {
		return b.objects[i].body
	}
	return nil
}

func (b *Blobs) list(a *core.Action) (entries []core.Entry, more bool) {
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

// AppendState appends all that is kept as canonical bytes.
func (b *Blobs) AppendState(dst []byte) []byte {
	for i := range b.objects {
		o := &b.objects[i]
		dst = append(append(dst, o.key...), 0)
		dst = append(binary.AppendUvarint(dst, uint64(len(o.body))), o.body...)
		dst = binary.BigEndian.AppendUint64(dst, uint64(o.stamp))
	}
	return dst
}

// Registers is the segment below which the strict protocol keeps a name.
const Registers = "/_mopslock/"

// Version reads the version of strict that a create makes: of which name, its number and the
// tenure that holds it; ok is false for any other request.
func (b *Blobs) Version(a *core.Action) (name string, epoch core.Epoch, tenure string, ok bool) {
	name, epoch, rest, ok := VersionKey(a.Key)
	if a.Kind != core.ActionCreate || !ok || rest != "v" {
		return "", 0, "", false
	}
	var body struct{ State, Tenure string }
	if json.Unmarshal(a.Body, &body) == nil && body.State == "held" {
		tenure = body.Tenure
	}
	return name, epoch, tenure, true
}

// Newest is the newest version of a name, or 0.
func (b *Blobs) Newest(name string) core.Epoch {
	for i := range b.objects {
		if of, epoch, rest, ok := VersionKey(b.objects[i].key); ok && of == name && rest == "v" {
			return epoch // they stand newest first
		}
	}
	return 0
}

// VersionKey reads the key of a version, whose rest is v, or of what lies beside it, as its beats do.
func VersionKey(key string) (name string, epoch core.Epoch, rest string, ok bool) {
	name, rest, ok = strings.Cut(key, Registers)
	if !ok || len(rest) < 18 || rest[16] != '/' {
		return "", 0, "", false
	}
	inverse, err := strconv.ParseUint(rest[:16], 16, 64)
	return name, core.Epoch(math.MaxUint64 - inverse), rest[17:], err == nil
}
