package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// maxNames bounds the names of which something is remembered.
const maxNames = 16_384

// memory is what this process remembers of names, in the order in which they were used.
type memory struct {
	names          map[string]*remembered
	oldest, newest *remembered
}

// remembered is what is known of one name.
type remembered struct {
	base.Shared
	name string
	released
	kept       uint64 // the fingerprint that the host remembers, or 0
	prev, next *remembered
}

// released is how this process released a name. Its next claim knows the newest version
// from that, and does not look.
type released struct {
	epoch  core.Epoch
	at     int64 // Mono
	looked int64 // Mono: no old client had a record then; 0 is nothing
}

// note changes what is remembered of a name, and puts it behind all others, or takes it out if
// there is nothing to remember of it. If they are too many, the one that was used longest
// ago is forgotten, which is returned.
func (m *memory) note(name string, change func(*remembered)) (forgotten *remembered) {
	r := m.names[name]
	if r == nil {
		r = &remembered{name: name}
	} else {
		m.remove(r)
	}
	if change(r); r.released == (released{}) && r.kept == 0 {
		return nil
	}
	m.add(r)
	if len(m.names) > maxNames {
		forgotten = m.oldest
		m.remove(forgotten)
	}
	return forgotten
}

// takeRelease is how a name was released, which is not remembered any more then: it spares one look.
func (m *memory) takeRelease(name string) (last released) {
	if m.names[name] != nil {
		m.note(name, func(r *remembered) { last, r.released = r.released, released{} })
	}
	return last
}

// kept is the fingerprint that the host remembers of a name, or 0.
func (m *memory) kept(name string) uint64 {
	if r := m.names[name]; r != nil {
		return r.kept
	}
	return 0
}

func (m *memory) add(r *remembered) {
	if r.prev = m.newest; r.prev == nil {
		m.oldest = r
	} else {
		r.prev.next = r
	}
	m.newest, m.names[r.name] = r, r
}

func (m *memory) remove(r *remembered) {
	if r.prev == nil {
		m.oldest = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		m.newest = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	delete(m.names, r.name)
}

// remembers reports whether observations can be of use to another process: the host gives them
// to one of the same boot alone, by whose clock they are.
func remembers(cfg *core.Config) bool { return cfg.Remembers }

// appendSeen appends a fingerprint of all beats and since when it stood unchanged, for recall.
func appendSeen(dst []byte, cfg *core.Config, now core.Instant, print uint64, since int64) []byte {
	dst = octets.AppendBE64(dst, print)
	dst = octets.AppendBE64(dst, uint64(since))
	dst = octets.AppendBE64(dst, uint64(since+now.Wall-now.Mono))
	return append(dst, cfg.Boot...)
}

// recall is what an earlier process saw; 0 is nothing, as for another boot, or one that only
// has the name of ours.
func recall(cfg *core.Config, now core.Instant, body []byte) (print uint64, since int64) {
	const numbers = 3 * 8
	if !remembers(cfg) || len(body) < numbers || string(body[numbers:]) != cfg.Boot {
		return 0, 0
	}
	since, ok := now.Emitted(int64(octets.BE64(body[8:])), int64(octets.BE64(body[16:])))
	if !ok {
		return 0, 0
	}
	return octets.BE64(body), since
}
