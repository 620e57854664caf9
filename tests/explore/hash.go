package explore

import (
	"encoding/binary"
	"math/bits"
)

// digest is 128 bits of a hash. Ten million states meet by chance with a
// probability below 1e-24.
type digest [2]uint64

// The odd constants of wyhash (Wang Yi), and as many of splitmix64.
const (
	mix0 = 0xa0761d6478bd642f
	mix1 = 0xe7037ed1a0b428db
	mix2 = 0x8ebc6af09c88c6e3
	mix3 = 0x589965cc75374cc3
)

// hash is two runs of a multiply-and-fold hash side by side, as wyhash does it.
// It has no secret: no attacker chooses what is hashed here.
func hash(b []byte) digest {
	x, y := uint64(len(b))^mix0, uint64(len(b))^mix2
	for len(b) >= 16 {
		p, q := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		x, y = fold(p^mix1, q^x), fold(p^y, q^mix3)
		b = b[16:]
	}
	var tail [16]byte
	copy(tail[:], b)
	p, q := binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:])
	x, y = fold(p^mix1, q^x), fold(p^y, q^mix3)
	return digest{fold(x^mix2, y^mix1), fold(y^mix0, x^mix3)}
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// table interns values by the hash of their canonical bytes.
type table[T any] struct {
	ids   map[digest]uint32
	items []T
}

func newTable[T any]() table[T] { return table[T]{ids: map[digest]uint32{}} }

// id returns the number of a value, which is made only if it is new.
func (t *table[T]) id(key digest, fresh func() T) uint32 {
	if id, ok := t.ids[key]; ok {
		return id
	}
	id := uint32(len(t.items))
	t.ids[key] = id
	t.items = append(t.items, fresh())
	return id
}

// visited is the set of worlds seen: open addressing, half full at most. Its
// values are the numbers of nodes, from 1 upwards.
type visited struct {
	keys  []digest
	count int
}

func newVisited() *visited { return &visited{keys: make([]digest, 1<<12)} }

// add reports whether a key was new.
func (v *visited) add(key digest) bool {
	if key == (digest{}) {
		key[0] = 1 // an empty slot is all zero
	}
	if 2*v.count >= len(v.keys) {
		v.grow()
	}
	if !v.put(key) {
		return false
	}
	v.count++
	return true
}

func (v *visited) put(key digest) bool {
	mask := uint64(len(v.keys) - 1)
	for i := key[0] & mask; ; i = (i + 1) & mask {
		switch v.keys[i] {
		case digest{}:
			v.keys[i] = key
			return true
		case key:
			return false
		}
	}
}

func (v *visited) grow() {
	old := v.keys
	v.keys = make([]digest, 2*len(old))
	for _, key := range old {
		if key != (digest{}) {
			v.put(key)
		}
	}
}
