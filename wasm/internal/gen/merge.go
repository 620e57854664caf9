package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Go's linker leaves out every 17 zeros of a module's data, which splits the data into
// 32,565 segments. An engine decodes and copies them one by one at each start, which is
// a quarter of a start that compiles nothing. With the zeros of small gaps written out
// there are 23 segments.
const (
	smallGap    = 64
	dataSection = 11
	countOfData = 12 // which Go does not write
)

// segment is a piece of a module's memory, as it is at first.
type segment struct {
	at   int64
	text []byte
}

// mergeData is the module with the segments of its data merged, and sorted.
func mergeData(module []byte) ([]byte, error) {
	const header = 8
	if len(module) < header || !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, errors.New("no module of WebAssembly")
	}
	r := &reader{left: module[header:]}
	out := slices.Clone(module[:header])
	for len(r.left) > 0 {
		id, body := r.byte(), r.bytes(r.unsigned())
		if r.err != nil {
			return nil, r.err
		}
		switch id {
		case countOfData:
			return nil, errors.New("a section that counts segments of data, which this does not merge")
		case dataSection:
			segments, err := readSegments(body)
			if err != nil {
				return nil, err
			}
			if segments, err = merge(segments); err != nil {
				return nil, err
			}
			body = appendSegments(nil, segments)
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	return out, nil
}

// merge joins each segment that is at most smallGap after the one before it.
func merge(segments []segment) ([]segment, error) {
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.at, b.at) })
	var merged []segment
	for _, s := range segments {
		if len(merged) == 0 {
			merged = append(merged, segment{s.at, slices.Clone(s.text)})
			continue
		}
		last := &merged[len(merged)-1]
		switch gap := s.at - (last.at + int64(len(last.text))); {
		case gap < 0: // the later one would win, and sorting has lost which it was
			return nil, fmt.Errorf("segments of data overlap at %d", s.at)
		case gap <= smallGap:
			last.text = append(append(last.text, make([]byte, gap)...), s.text...)
		default:
			merged = append(merged, segment{s.at, slices.Clone(s.text)})
		}
	}
	return merged, nil
}

// The bytes around a segment's offset: active, in memory 0, at a constant.
const (
	active   = 0x00
	i32Const = 0x41
	end      = 0x0b
)

func readSegments(body []byte) ([]segment, error) {
	r := &reader{left: body}
	segments := make([]segment, 0, min(r.unsigned(), uint64(len(body))))
	for len(r.left) > 0 && r.err == nil {
		if r.byte() != active || r.byte() != i32Const {
			return nil, errors.New("a segment of data that is not at a constant place of the memory")
		}
		at := r.signed()
		if r.byte() != end {
			return nil, errors.New("a segment of data at a place that is computed")
		}
		segments = append(segments, segment{at: at, text: r.bytes(r.unsigned())})
	}
	return segments, r.err
}

func appendSegments(b []byte, segments []segment) []byte {
	b = binary.AppendUvarint(b, uint64(len(segments)))
	for _, s := range segments {
		b = append(b, active, i32Const)
		b = append(appendSigned(b, s.at), end)
		b = binary.AppendUvarint(b, uint64(len(s.text)))
		b = append(b, s.text...)
	}
	return b
}

// appendSigned appends v as signed LEB128: seven bits a byte, the last with the sign.
func appendSigned(b []byte, v int64) []byte {
	for v < -0x40 || v > 0x3f {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// reader reads WebAssembly's numbers; after an error it reads zeros.
type reader struct {
	left []byte
	err  error
}

var errShort = errors.New("the module is cut off")

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.left)) {
		r.err, r.left = cmp.Or(r.err, errShort), nil
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.err, r.left = cmp.Or(r.err, errShort), nil
		return 0
	}
	r.left = r.left[n:]
	return v
}

func (r *reader) signed() int64 {
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 || shift > 63 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}
