package trace

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/mopslock/mopslock/host"
)

// anyValue draws a value that msgpack/v5 can write, nested no deeper than depth.
func anyValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 9
		if depth == 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int64().Draw(t, "int")
		case 3:
			return rapid.Uint64().Draw(t, "uint")
		case 4:
			return rapid.Float64().Draw(t, "float")
		case 5:
			return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bin")
		case 6:
			return rapid.StringN(0, 100, 300).Draw(t, "str")
		case 7:
			return rapid.SliceOfN(anyValue(depth-1), 0, 20).Draw(t, "array")
		}
		return rapid.MapOfN(rapid.String(), anyValue(depth-1), 0, 5).Draw(t, "map")
	})
}

// ReadValue finds the end of each of several values that msgpack/v5 wrote one after the
// other, however slowly they come.
func TestReadValueOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all bytes.Buffer
		var ends []int
		for range rapid.IntRange(1, 4).Draw(t, "values") {
			e := msgpack.NewEncoder(&all)
			e.UseCompactInts(rapid.Bool().Draw(t, "compact"))
			if err := e.Encode(anyValue(3).Draw(t, "value")); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, all.Len())
		}
		whole := all.Bytes()
		r := bufio.NewReader(iotest.HalfReader(bytes.NewReader(whole)))
		begin := 0
		for _, end := range ends {
			got, err := ReadValue(r, len(whole))
			if err != nil || !bytes.Equal(got, whole[begin:end]) {
				t.Fatalf("%x %v, want %x", got, err, whole[begin:end])
			}
			begin = end
		}
		if _, err := ReadValue(r, len(whole)); !errors.Is(err, io.EOF) {
			t.Fatalf("%v at the end", err)
		}
		cut := rapid.IntRange(1, ends[0]).Draw(t, "cut")
		if _, err := ReadValue(bufio.NewReader(bytes.NewReader(whole[:cut])), len(whole)); cut < ends[0] && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%v when cut", err)
		}
	})
}

// For every first byte, the value is as long as msgpack/v5 says.
func TestReadValueEveryCode(t *testing.T) {
	for c := range 256 {
		b := append([]byte{byte(c)}, bytes.Repeat([]byte{0}, 200)...)
		got, err := ReadValue(bufio.NewReader(bytes.NewReader(b)), len(b))
		r := bytes.NewReader(b)
		skipErr := msgpack.NewDecoder(r).Skip()
		if c == 0xc1 {
			if !errors.Is(err, ErrNotMsgpack) || skipErr == nil {
				t.Errorf("%#x: %v", c, err)
			}
			continue
		}
		if c >= 0xd4 && c <= 0xd8 || c >= 0xc7 && c <= 0xc9 {
			continue // ext, for which msgpack/v5 needs registered types; see TestReadValueBounds
		}
		if err != nil || skipErr != nil || len(got) != len(b)-r.Len() {
			t.Errorf("%#x: %d bytes, msgpack/v5 %d; %v %v", c, len(got), len(b)-r.Len(), err, skipErr)
		}
	}
}

// ReadValue does not believe a header: it refuses at once what would take gigabytes or endless nesting.
func TestReadValueBounds(t *testing.T) {
	for b, want := range map[string]error{
		"\xc6\xff\xff\xff\xff":          ErrTooLong,
		"\xdb\x00\x01\x00\x00":          ErrTooLong,
		"\xc9\xff\xff\xff\xff\x01":      ErrTooLong,
		"\xdd\xff\xff\xff\xff\x01":      io.ErrUnexpectedEOF,
		"\xdf\xff\xff\xff\xff":          io.ErrUnexpectedEOF,
		strings.Repeat("\x91", 100_000): ErrTooDeep,
		strings.Repeat("\x81", 100_000): ErrTooDeep,
		"\x91\xc1":                      ErrNotMsgpack,
		"\xd4\x01x":                     nil,
		"\xd5\x01xx":                    nil,
		"\xd6\x01xxxx":                  nil,
		"\xd7\x01xxxxxxxx":              nil,
		"\xd8\x01xxxxxxxxxxxxxxxx":      nil,
		"\xc7\x02\x01xx":                nil,
		"\xc8\x00\x02\x01xx":            nil,
		"\xc9\x00\x00\x00\x02\x01xx":    nil,
	} {
		got, err := ReadValue(bufio.NewReader(strings.NewReader(b+"rest")), 1000)
		if !errors.Is(err, want) || want == nil && string(got) != b {
			t.Errorf("%.20q: %q, %v, want %v", b, got, err, want)
		}
	}
	exact := "\xc4\x05hello"
	if _, err := ReadValue(bufio.NewReader(strings.NewReader(exact)), len(exact)); err != nil {
		t.Error(err)
	}
	if _, err := ReadValue(bufio.NewReader(strings.NewReader(exact)), len(exact)-1); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	deep := strings.Repeat("\x91", MaxDepth) + "\x01"
	if _, err := ReadValue(bufio.NewReader(strings.NewReader(deep)), 100); err != nil {
		t.Error(err)
	}
}

// FuzzRead: Replay takes any file for a recording, or returns a FormatError.
func FuzzRead(f *testing.F) {
	f.Fuzz(func(t *testing.T, recording []byte) {
		report, err := Replay(bytes.NewReader(recording), host.Native{})
		var format *FormatError
		if err != nil && !errors.As(err, &format) {
			t.Fatalf("%+v %v", report, err)
		}
		if d := report.Difference; d != nil && bytes.Equal(d.RecordedAnswer, d.ReplayedAnswer) {
			t.Fatalf("no difference: %+v", d)
		}
	})
}
