package explore

import (
	"encoding/binary"
)

// appendState appends all but last as canonical bytes.
func (w *state) appendState(dst []byte) []byte {
	sweep := byte(0)
	if w.sweep {
		sweep = 1
	}
	dst = append(dst, w.turn, sweep, w.count, w.paused)
	dst = append(dst, w.spent[:]...)
	dst = binary.LittleEndian.AppendUint16(dst, w.now)
	dst = binary.LittleEndian.AppendUint32(dst, w.store)
	dst = binary.LittleEndian.AppendUint32(dst, w.ledger)
	for _, id := range w.actors {
		dst = binary.LittleEndian.AppendUint32(dst, id)
	}
	for i := range w.flying[:w.count] {
		f := &w.flying[i]
		dst = append(dst, f.actor, byte(f.phase), f.group)
		dst = binary.LittleEndian.AppendUint16(dst, f.sent)
		dst = binary.LittleEndian.AppendUint32(dst, f.action)
		dst = binary.LittleEndian.AppendUint32(dst, f.reply)
	}
	return dst
}

// key is the hash of all but last.
func (w *state) key(buf []byte) (digest, []byte) {
	buf = w.appendState(buf[:0])
	return hash(buf), buf
}

// pack appends the whole world and the number of its node.
func (w *state) pack(dst []byte, node uint32) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, w.last), node)
	return w.appendState(dst)
}

// unpack reads what pack has written, and returns the rest.
func (w *state) unpack(b []byte, node *uint32) []byte {
	*w = state{}
	octet := func() byte { v := b[0]; b = b[1:]; return v }
	short := func() uint16 { v := binary.LittleEndian.Uint16(b); b = b[2:]; return v }
	long := func() uint32 { v := binary.LittleEndian.Uint32(b); b = b[4:]; return v }
	w.last, *node = octet(), long()
	w.turn, w.sweep, w.count, w.paused = octet(), octet() == 1, octet(), octet()
	for i := range w.spent {
		w.spent[i] = octet()
	}
	w.now, w.store, w.ledger = short(), long(), long()
	for i := range w.actors {
		w.actors[i] = long()
	}
	for i := range w.flying[:w.count] {
		f := &w.flying[i]
		f.actor, f.phase, f.group, f.sent = octet(), phase(octet()), octet(), short()
		f.action, f.reply = long(), long()
	}
	return b
}
