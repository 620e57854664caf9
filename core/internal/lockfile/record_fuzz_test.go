package lockfile

import (
	"bytes"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// FuzzRecord: Parse never panics. It takes a body for a JSON object if and only if
// encoding/json does.
func FuzzRecord(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("../../testdata", "records", "*.json"))
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
		var r Record
		Parse(body, &r)
		r.Fingerprint()
		base.Fingerprint(body)
		checkRecordAsJSON(t, body, &r)
	})
}

// checkRecordAsJSON compares with encoding/json, except for the numbers that Python
// writes and RFC 8259 does not know.
func checkRecordAsJSON(t *testing.T, body []byte, r *Record) {
	t.Helper()
	var fields [recordFields]jsontext.Token
	ours := len(body) <= core.MaxRecord && utf8.Valid(body) && scanFields(body, &fields)
	if (r.State == Live || r.State == Released || r.NoExpiry) && !ours {
		t.Fatalf("state %d of no object", r.State)
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
	if valid && !ours && len(body) <= core.MaxRecord && depth(theirs) <= core.MaxJSONDepth {
		t.Fatalf("an object to encoding/json: %q", body)
	}
	if !ours {
		return
	}
	if writer, ok := theirs["writer_id"].(string); ok && string(r.Writer.AppendTo(nil)) != writer {
		t.Fatalf("writer %q, want %q", r.Writer.AppendTo(nil), writer)
	}
	if remote, _ := theirs["writer_name"].(string); r.Remote != (remote == core.RemoteWriter) {
		t.Fatalf("remote %v of %q", r.Remote, remote)
	}
	if n, ok := theirs["expire_s"].(json.Number); ok {
		checkExpire(t, string(n), r)
	}
}

// depth returns how deep v is nested; a scalar is 0.
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

// checkExpire does the sum of jsontext.ParseSeconds with exact fractions.
func checkExpire(t *testing.T, number string, r *Record) {
	t.Helper()
	if len(number) > 1000 || hugeExponent.MatchString(number) {
		return // big.Rat would take hours
	}
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("expire_s %s is no number", number)
	}
	ns := new(big.Rat).Mul(exact, big.NewRat(int64(time.Second), 1))
	ns.Add(ns, big.NewRat(1, 2))
	whole := new(big.Int).Quo(ns.Num(), ns.Denom())
	want := time.Duration(0)
	if exact.Sign() > 0 && whole.IsInt64() && whole.Int64() <= int64(core.MaxTTL) {
		want = max(1, time.Duration(whole.Int64()))
	}
	if r.Expire != want {
		t.Fatalf("expire_s %s: %d ns, want %d", number, r.Expire, want)
	}
}
