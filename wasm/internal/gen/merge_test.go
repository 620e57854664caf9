package main

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// moduleOf is a module of these segments between two other sections.
func moduleOf(segments []segment) []byte {
	module := []byte("\x00asm\x01\x00\x00\x00\x0a\x02\x01\x7f")
	body := appendSegments(nil, segments)
	module = append(module, dataSection)
	module = binary.AppendUvarint(module, uint64(len(body)))
	return append(append(module, body...), "\x00\x03\x01kk"...)
}

// image is the memory as an engine makes it: segment by segment.
func image(t interface{ Fatalf(string, ...any) }, module []byte, size int) []byte {
	_, rest, ok := bytes.Cut(module, []byte("\x00asm\x01\x00\x00\x00\x0a\x02\x01\x7f"))
	if !ok || !bytes.HasSuffix(rest, []byte("\x00\x03\x01kk")) {
		t.Fatalf("the sections around the data are gone")
	}
	r := &reader{left: rest[1:]}
	segments, err := readSegments(r.bytes(r.unsigned()))
	if err != nil {
		t.Fatalf("%v", err)
	}
	memory := make([]byte, size)
	for _, s := range segments {
		copy(memory[s.at:], s.text)
	}
	return memory
}

// TestMergeKeepsMemory: for any segments in any order, a merged module begins with the
// same memory as the module before, in fewer segments, and merging again changes nothing.
func TestMergeKeepsMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var segments []segment
		at := int64(0)
		for range rapid.IntRange(0, 40).Draw(t, "segments") {
			at += int64(rapid.OneOf(rapid.IntRange(0, 3*smallGap), rapid.Just(1<<16)).Draw(t, "gap"))
			text := rapid.SliceOfN(rapid.Byte(), 1, 3*smallGap).Draw(t, "text")
			segments = append(segments, segment{at, text})
			at += int64(len(text))
		}
		module := moduleOf(rapid.Permutation(segments).Draw(t, "order"))
		merged, err := mergeData(module)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(image(t, merged, int(at)), image(t, module, int(at))) {
			t.Fatal("another memory")
		}
		again, err := mergeData(merged)
		if err != nil || !bytes.Equal(again, merged) {
			t.Fatalf("merging again changes it: %v", err)
		}
		if n, err := merge(segments); err != nil || apart(n) != len(n)-1 && len(n) > 0 {
			t.Fatalf("%d segments, of which %d are far from the one before (%v)", len(n), apart(n), err)
		}
	})
}

// apart counts segments that are too far from the one before to be joined.
func apart(segments []segment) (n int) {
	for i := 1; i < len(segments); i++ {
		if before := segments[i-1]; segments[i].at-before.at-int64(len(before.text)) > smallGap {
			n++
		}
	}
	return n
}

// TestMergeRefuses: it refuses a module that it does not understand.
func TestMergeRefuses(t *testing.T) {
	whole := moduleOf([]segment{{0, []byte("ab")}, {-1 << 20, []byte("c")}})
	if _, err := mergeData(whole); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		module []byte
		says   string
	}{
		"text":     {[]byte("no module at all"), "no module"},
		"cut off":  {whole[:len(whole)-1], "cut off"},
		"overlap":  {moduleOf([]segment{{8, []byte("cd")}, {7, []byte("ab")}}), "overlap at 8"},
		"passive":  {[]byte("\x00asm\x01\x00\x00\x00\x0b\x04\x01\x01\x01k"), "constant place"},
		"computed": {[]byte("\x00asm\x01\x00\x00\x00\x0b\x07\x01\x00\x41\x00\x6a\x0b\x00"), "computed"},
		"counted":  {[]byte("\x00asm\x01\x00\x00\x00\x0c\x01\x01"), "counts segments"},
	} {
		if out, err := mergeData(c.module); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
	}
}
