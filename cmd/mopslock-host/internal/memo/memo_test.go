package memo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
)

// What is kept is a map with these very keys, and is read back as it was.
func TestFailureIsKept(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 30, 0, 0, time.FixedZone("", 3600))
	kept, err := New("remote", child.Status{Code: 5}, []byte("last line\xff\n"), at).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := msgpack.Unmarshal(kept, &fields); err != nil || len(fields) != 6 || fields["by"] != "mopslock-host remote" || fields["at"] != "2026-11-21T05:30:00Z" {
		t.Errorf("%v, %v", fields, err)
	}
	f, err := Read(kept)
	if err != nil || f.Status != 5 || string(f.Stderr) != "last line\xff\n" || f.Host != fields["host"] {
		t.Errorf("%+v, %v", f, err)
	}
}

// Hosts in other languages keep more, or less; what is not as it should be is nobody's status.
func TestFailureOfOthers(t *testing.T) {
	good := map[string]any{"v": 1, "status": 0, "stderr": "text", "type": "ValueError", "text": "no\x1b[2J", "host": "h", "more": []int{1}}
	with := func(key string, value any) []byte {
		changed := map[string]any{}
		for k, v := range good {
			changed[k] = v
		}
		changed[key] = value
		body, err := msgpack.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	f, err := Read(with("v", 1))
	if err != nil || string(f.Stderr) != "text" || f.Describe("n") != `n has failed on h: "ValueError: no\x1b[2J", and that is kept (--memo-failures)` {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := Read(with("stderr", strings.Repeat("x", MaxStderr)+"end")); err != nil || len(f.Stderr) != MaxStderr || !bytes.HasSuffix(f.Stderr, []byte("end")) {
		t.Errorf("%d bytes, %v", len(f.Stderr), err)
	}
	if _, err := Read(with("v", 2)); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	for what, body := range map[string][]byte{
		"empty": nil, "no map": {0x93, 1, 2, 3}, "cut": with("v", 1)[:20], "v": with("v", 0), "status": with("status", 256),
		"negative": with("status", -1), "no number": with("status", "five"), "huge": {0x81, 0xa1, 'v', 0xc6, 0xff, 0xff, 0xff, 0xff},
	} {
		if f, err := Read(body); err == nil || errors.Is(err, ErrNewer) {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
	}
}
