//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/messages"
	"github.com/mopslock/mopslock/core/wire"
	"github.com/mopslock/mopslock/host/trace"
)

// cmdPack is `pack JSON FILE`: a line that is a Config and lines that are inputs
// as msgpack values, written as another language might: keys from last to
// first, integers of 64 bits. Lines that are arrays are messages to a keeper, which
// are canonical.
func cmdPack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pack JSON FILE")
	}
	out, err := packed(ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o666))
}

func packed(lines string) ([]byte, error) {
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.SetCustomStructTag("json")
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "[") {
			message, err := packedForKeeper(line)
			if err != nil {
				return nil, err
			}
			out.Write(message)
			continue
		}
		var as any = new(wire.Input)
		if out.Len() == 0 {
			as = new(wire.Config)
		}
		if err := json.Unmarshal([]byte(line), as); err != nil {
			return nil, err
		}
		var value bytes.Buffer
		inner := msgpack.NewEncoder(&value)
		inner.SetCustomStructTag("json")
		if err := inner.Encode(as); err != nil {
			return nil, err
		}
		var reversed [][]byte
		err := trace.Fields(value.Bytes(), func(key string, begin, end int) error {
			entry := []byte{0xd9, byte(len(key))} // str8, where the core writes a fixstr
			entry = append(append(entry, key...), value.Bytes()[begin:end]...)
			reversed = append([][]byte{entry}, reversed...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		_ = e.EncodeMapLen(len(reversed))
		out.Write(bytes.Join(reversed, nil))
	}
	return out.Bytes(), nil
}

func packedForKeeper(line string) ([]byte, error) {
	var in wire.Input // a command; other messages have keys that it has not
	values := []any{new(uint64), &in}
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if d.Decode(&values) != nil {
		var message map[string]any
		values = []any{new(uint64), &message}
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.SetCustomStructTag("json")
	e.UseCompactInts(true)
	e.UseCompactFloats(true) // which JSON has for integers
	err := e.Encode(values)
	return out.Bytes(), err
}

// cmdUnpack is `unpack FILE JSON`: answers, or what a keeper says, as lines again.
func cmdUnpack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: unpack FILE JSON")
	}
	var lines bytes.Buffer
	r := bufio.NewReader(strings.NewReader(ts.ReadFile(args[0])))
	for {
		value, err := trace.ReadValue(r, messages.MaxValue)
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		line, err := messages.Line(value, new(wire.Answer))
		if array := value[0] >= 0x90 && value[0] < 0xa0; array { // of a keeper
			var any any
			ts.Check(msgpack.Unmarshal(value, &any))
			line, err = json.Marshal(any)
			line = append(line, '\n')
		}
		ts.Check(err)
		lines.Write(line)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), lines.Bytes(), 0o666))
}

// cmdSwap is `swap FILE OLD NEW`: the first OLD becomes NEW; both may have
// escapes such as \xc1.
func cmdSwap(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: swap FILE OLD NEW")
	}
	unescape := func(text string) (out string) {
		_, err := fmt.Sscanf(`"`+text+`"`, "%q", &out)
		ts.Check(err)
		return out
	}
	text := ts.ReadFile(args[0])
	changed := strings.Replace(text, unescape(args[1]), unescape(args[2]), 1)
	if changed == text {
		ts.Fatalf("%s has no %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(changed), 0o666))
}
