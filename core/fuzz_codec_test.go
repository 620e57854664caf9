package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core/wire"
)

// semantic is the rules that msgpack/v5 knows nothing of: a message that it
// reads and writes again as the same bytes can break no other.
var semantic = map[string]bool{
	ruleLong: true, ruleCount: true, ruleMissing: true, ruleNotOfKind: true, ruleUTF8: true, ruleSeed: true, ruleName: true,
	ruleZero:  true, // a zero name, and a zero seed
	ruleRange: true, // integers of 32 bits
}

// checkAgainstOracle is what every fuzz target of messages does. got is what
// our decoder made of b, in wire terms, and again what our encoder made of it.
func checkAgainstOracle(t *testing.T, b []byte, err error, got, oracle any, again []byte) {
	t.Helper()
	oracleErr := oracleDecode(b, oracle)
	canonical := oracleErr == nil && bytes.Equal(oracleEncode(t, reflect.ValueOf(oracle).Elem().Interface()), b)
	if err != nil {
		var refusal *MessageError
		if !errors.As(err, &refusal) || refusal.Offset < 0 || refusal.Offset > len(b) {
			t.Fatalf("%v", err)
		}
		if canonical && !semantic[refusal.Rule] {
			t.Fatalf("%v, but msgpack/v5 reads and writes it: %x", err, b)
		}
		return
	}
	if oracleErr != nil {
		t.Fatalf("we read what msgpack/v5 does not: %v: %x", oracleErr, b)
	}
	if want := reflect.ValueOf(oracle).Elem().Interface(); !reflect.DeepEqual(got, want) {
		t.Fatalf("read as %+v, by msgpack/v5 as %+v", got, want)
	}
	if !bytes.Equal(again, b) || !canonical {
		t.Fatalf("not canonical:\n%x\n%x", b, again)
	}
}

func addGolden(f *testing.F, sort string) {
	names, messages := goldenMessages()
	for _, name := range names {
		if strings.HasPrefix(name, sort) {
			f.Add(messages[name])
		}
	}
}

func FuzzInput(f *testing.F) {
	addGolden(f, "input")
	f.Fuzz(func(t *testing.T, b []byte) {
		var now Instant
		var ev Event
		err := DecodeInput(b, &now, &ev)
		got := toWireInput(now, &ev)
		checkAgainstOracle(t, b, err, got, new(wire.Input), AppendInput(nil, now, &ev))
	})
}

func FuzzActions(f *testing.F) {
	addGolden(f, "actions")
	f.Fuzz(func(t *testing.T, b []byte) {
		actions, err := decodeActions(b, new(AnswerBuffer))
		checkAgainstOracle(t, b, err, toWireActions(actions), new([]wire.Action), appendActions(nil, actions))
	})
}

func FuzzAnswer(f *testing.F) {
	addGolden(f, "answer")
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Answer
		err := DecodeAnswer(b, new(AnswerBuffer), &a)
		checkAgainstOracle(t, b, err, toWireAnswer(&a), new(wire.Answer), appendAnswer(&a))
	})
}

func FuzzConfig(f *testing.F) {
	addGolden(f, "config")
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Config
		err := DecodeConfig(b, &c)
		checkAgainstOracle(t, b, err, toWireConfig(&c), new(wire.Config), AppendConfig(nil, &c))
	})
}

// FuzzRecord: nothing panics; what is taken for a JSON object is one to
// encoding/json too, and the other way round; and what can be acted on is read
// back the same after we wrote it.
func FuzzRecord(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "records", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatal("no records", err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, body := range []string{
		"", "{}", "[]", `{"a":[{"b":null},true,false,-1.5e+10,"\u00e9\ud83d\ude00"]}`,
		edited("expire_s", "NaN"), edited("expire_s", "1e-7"), edited("expire_s", gone), edited("written_at", "null"),
		edited("released_at", `"2025-08-24 01:46:40.123456789-05:30"`, "writer_id", "0"), edited("writer_id", `"\ud800\n"`),
		edited("first_acquired_at", `"\u0032025-08-24T01:46:40Z"`, "writer_name", `"\u0072emote"`, "writer_name", "1"),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r record
		parseRecord(body, &r)
		r.print()
		fingerprint(body)
		checkRecordAsJSON(t, body, &r)
		if r.state == recordLive || r.state == recordReleased {
			checkRecordAgain(t, &r)
		}
	})
}

// checkRecordAsJSON compares with encoding/json, except for what Python writes
// and RFC 8259 does not know.
func checkRecordAsJSON(t *testing.T, body []byte, r *record) {
	t.Helper()
	var fields [recordFields]jsonToken
	ours := len(body) <= MaxRecord && utf8.Valid(body) && scanFields(body, &fields)
	if (r.state == recordLive || r.state == recordReleased || r.noExpiry) && !ours {
		t.Fatalf("state %d of no object", r.state)
	}
	if bytes.Contains(body, []byte("NaN")) || bytes.Contains(body, []byte("Infinity")) {
		return
	}
	var theirs map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	valid := json.Valid(body) && utf8.Valid(body) && d.Decode(&theirs) == nil && theirs != nil
	if ours && !valid {
		t.Fatalf("no object to encoding/json: %q", body)
	}
	if valid && !ours && len(body) <= MaxRecord && depth(theirs) <= MaxJSONDepth {
		t.Fatalf("an object to encoding/json: %q", body)
	}
	if !ours {
		return
	}
	if writer, ok := theirs["writer_id"].(string); ok && string(r.writer.appendTo(nil)) != writer {
		t.Fatalf("writer %q, want %q", r.writer.appendTo(nil), writer)
	}
	if remote, _ := theirs["writer_name"].(string); r.remote != (remote == RemoteWriter) {
		t.Fatalf("remote %v of %q", r.remote, remote)
	}
	if n, ok := theirs["expire_s"].(json.Number); ok {
		checkExpire(t, string(n), r)
	}
}

// depth is how deep v is nested; a scalar is 0.
func depth(v any) (deepest int) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depth(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depth(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}

var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[0-9]{4}`)

// checkExpire does parseSeconds' sum with exact fractions.
func checkExpire(t *testing.T, number string, r *record) {
	t.Helper()
	if len(number) > 1000 || hugeExponent.MatchString(number) {
		return // big.Rat would be at it for hours
	}
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("expire_s %s is no number", number)
	}
	ns := new(big.Rat).Mul(exact, big.NewRat(int64(time.Second), 1))
	ns.Add(ns, big.NewRat(1, 2))
	whole := new(big.Int).Quo(ns.Num(), ns.Denom())
	want := time.Duration(0)
	if exact.Sign() > 0 && whole.IsInt64() && whole.Int64() <= int64(MaxTTL) {
		want = max(1, time.Duration(whole.Int64()))
	}
	if r.expire != want {
		t.Fatalf("expire_s %s: %d ns, want %d", number, r.expire, want)
	}
}

// checkRecordAgain writes what was read and reads that.
func checkRecordAgain(t *testing.T, r *record) {
	t.Helper()
	own := ownRecord{
		holder: HolderID(r.writer.appendTo(nil)), writtenAt: r.writtenAt, firstWrittenAt: r.firstWrittenAt,
		acquiredAt: r.acquiredAt, releasedAt: r.releasedAt, ttl: r.expire, count: r.count, remote: r.remote,
		host: string(r.host.appendTo(nil)), pid: string(r.pid.appendTo(nil)),
	}
	body := appendRecord(nil, &own)
	if len(body) > MaxRecord {
		return // escapes make it longer
	}
	var again record
	parseRecord(body, &again)
	micro := func(wall int64) int64 {
		if wall == 0 {
			return 0
		}
		wall = floorDiv(wall, 1000) * 1000
		if wall == 0 {
			return 1
		}
		return wall
	}
	if r.writtenAt < -MaxClockRange+1000 || r.firstWrittenAt < -MaxClockRange+1000 ||
		r.acquiredAt < -MaxClockRange+1000 || r.releasedAt < -MaxClockRange+1000 {
		return // rounded down, such a stamp is outside of the range
	}
	if again.state != r.state || !again.writer.equal(string(own.holder)) || again.expire != r.expire ||
		again.count != r.count || again.remote != r.remote || again.writtenAt != micro(r.writtenAt) ||
		again.acquiredAt != micro(r.acquiredAt) || again.releasedAt != micro(r.releasedAt) ||
		again.firstWrittenAt != micro(r.firstWrittenAt) {
		t.Fatalf("%+v\nread again: %+v\n%s", r, again, body)
	}
}
