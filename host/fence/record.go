package fence

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// contentType of every object: the head is for people, the body can be anything.
const contentType = "application/octet-stream"

// head is the first line of a slot's object. The caller's bytes follow it unchanged:
//
//	{"v":1,"slot":7,"token":3,"holder":"0198…","nonce":"f3…","after":"9a…","written":7,"size":12}
//	twelve bytes
//
// There is one way to write a head, and decode refuses any other.
type head struct {
	V       uint64 `json:"v"`
	Slot    uint64 `json:"slot"`
	Token   uint64 `json:"token"`
	Holder  string `json:"holder"`
	Nonce   string `json:"nonce"`
	After   string `json:"after"`
	Written uint64 `json:"written"`
	Size    int    `json:"size"`
}

func (h *head) line() []byte {
	text, err := json.Marshal(h)
	if err != nil {
		panic("mopslock: fence: a head of numbers and texts: " + err.Error())
	}
	return append(text, '\n')
}

// encode returns the object of a slot.
func (s *Slot) encode() []byte {
	h := head{1, s.Number, s.Token, s.Holder, s.Nonce, s.After, s.Written, len(s.Body)}
	return append(h.line(), s.Body...)
}

// decode reads the object at key, which must be the slot of that number.
func decode(key string, number uint64, object []byte, stamp int64) (Slot, error) {
	end := bytes.IndexByte(object[:min(len(object), maxHead)], '\n') + 1
	line, body := object[:end], object[end:]
	var version struct {
		V uint64 `json:"v"`
	}
	if end == 0 || json.Unmarshal(line, &version) != nil || version.V == 0 {
		return Slot{}, unreadable(key, ErrCorrupt, "no head of ours in its first line")
	}
	if version.V > 1 {
		return Slot{}, unreadable(key, ErrNewer, "v is "+strconv.FormatUint(version.V, 10))
	}
	var h head
	switch {
	case json.Unmarshal(line, &h) != nil || !bytes.Equal(h.line(), line):
		return Slot{}, unreadable(key, ErrCorrupt, "its head is not as it is written")
	case h.Slot != number || h.Token == 0 || h.Written > number || h.Size > MaxBody || h.Written == 0 && h.Size > 0:
		return Slot{}, unreadable(key, ErrCorrupt, "its head cannot be true")
	case h.Size != len(body):
		return Slot{}, unreadable(key, ErrCorrupt, fmt.Sprintf("%d bytes follow its head, not %d", len(body), h.Size))
	}
	s := Slot{Number: number, Token: h.Token, Holder: h.Holder, Nonce: h.Nonce, After: h.After, Written: h.Written, Stamp: stamp}
	if h.Written > 0 {
		s.Body = append([]byte{}, body...)
	}
	return s, nil
}

func freshNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// slotKey returns the key of a slot. The keys of newer slots come first.
func (o *Object) slotKey(number uint64) string {
	return fmt.Sprintf("%s%016x", o.prefix, math.MaxUint64-number)
}

// slotNumber returns the number of the slot at a key. ok is false if there is no slot.
func (o *Object) slotNumber(key string) (uint64, bool) {
	name, ok := strings.CutPrefix(key, o.prefix)
	if !ok || len(name) != 16 || strings.ToLower(name) != name {
		return 0, false
	}
	inverse, err := strconv.ParseUint(name, 16, 64)
	return math.MaxUint64 - inverse, err == nil && inverse != math.MaxUint64
}
