package wasm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core/machines"
)

// TestVectors repeats every vector in a guest, byte for byte.
func TestVectors(t *testing.T) {
	guest := testGuest(t)
	paths, err := filepath.Glob("../core/testdata/vectors/*.vec")
	if err != nil || len(paths) == 0 {
		t.Fatal("no vectors", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			v := vector{T: t, guest: guest, machines: map[string]machines.Handle{}}
			lines := bufio.NewScanner(file)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				v.line++
				v.repeat(lines.Text())
			}
			if lines.Err() != nil || v.answers == 0 {
				t.Errorf("%d answers, %v", v.answers, lines.Err())
			}
		})
	}
}

// vector is one file being repeated.
type vector struct {
	*testing.T
	guest         *Guest
	machines      map[string]machines.Handle
	line, answers int
	answer        []byte // of the line before
}

func (v *vector) repeat(text string) {
	fields := strings.Fields(text)
	if len(fields) == 0 || fields[0] == "#" {
		return
	}
	var err error
	switch fields[0] {
	case "new":
		var h machines.Handle
		if h, v.answer, err = v.guest.New(nil, v.bytes(fields[2])); h != 0 {
			v.machines[fields[1]] = h
		}
	case "step":
		v.answer, err = v.guest.Step(nil, v.machines[fields[1]], v.bytes(fields[2]))
	case "answer":
		v.answers++
		if want := v.bytes(fields[1]); !bytes.Equal(v.answer, want) {
			v.Fatalf("line %d: the guest answers\n%x, not\n%x", v.line, v.answer, want)
		}
	case "drop":
		err = v.guest.Drop(v.machines[fields[1]])
	default:
		v.Fatalf("line %d: %s", v.line, fields[0])
	}
	if err != nil {
		v.Fatalf("line %d: %v", v.line, err)
	}
}

func (v *vector) bytes(text string) []byte {
	if text == "-" {
		return nil
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		v.Fatalf("line %d: %v", v.line, err)
	}
	return b
}

// corpora are all inputs that were kept: what the core's fuzz targets found, and good
// messages, also with one bit changed or cut off.
func corpora(tb testing.TB) (all [][]byte) {
	files, err := filepath.Glob("../core/testdata/fuzz/*/*")
	if err != nil {
		tb.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "[]byte(")
			if body, err := strconv.Unquote(strings.TrimSuffix(quoted, ")")); ok && err == nil {
				all = append(all, []byte(body))
			}
		}
	}
	golden, err := os.ReadFile("../core/testdata/messages.txt")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		message, err := hex.DecodeString(text)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, message)
		for i := range message {
			spoilt := bytes.Clone(message)
			spoilt[i] ^= 1 << (i % 8)
			all = append(all, spoilt, message[:i])
		}
	}
	return all
}
