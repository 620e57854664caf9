package register

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"pgregory.net/rapid"
)

// somePermits is a value with so many permits, each of a process of its own if apart.
func somePermits(n int, apart bool) *Value {
	v := &Value{Capacity: 1000, Width: 2}
	for i := range n {
		p := PermitEntry{
			ID: string(base.SeedUUID([16]byte{byte(i), byte(i >> 8), 1})), Session: string(base.SeedUUID([16]byte{2})), Weight: 1,
			Host: "worker-7f9c4d", PID: "12345", Label: "nightly",
		}
		if apart {
			p.Session, p.Host, p.PID = string(base.SeedUUID([16]byte{byte(i), byte(i >> 8), 3})), fmt.Sprint("worker-", i), fmt.Sprint(i)
		}
		v.Permits = append(v.Permits, p)
	}
	return v
}

// valueRecord is the record of version 7 with a value.
func valueRecord(tb testing.TB, v *Value) []byte {
	return recordOf(Recorder(tb, nil), 7, v)
}

// recordOf is the record of a version of a semaphore.
func recordOf(m *base.Machine, n core.Epoch, of *Value) []byte {
	v := OwnVersion{
		N: n, Origin: n, State: core.VersionValue, Tenure: "x", Owner: "x", Nonce: Nonce{3, uint64(n)}, TTL: 20 * core.Second, Margin: 2 * core.Second,
	}
	return AppendValue(nil, m, &v, of)
}

func readValue(t interface{ Fatalf(string, ...any) }, body []byte) (v Value) {
	var from Version
	if result := ParseVersion(body, 7, &from); result != ReadGood || !from.semaphore {
		t.Fatalf("read %d: %s", result, body)
	}
	v.Take(&from)
	return v
}

// TestValueRoundTrip: what is written is read, whatever is left out between, in any
// order; and any reader of JSON reads it.
func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		few := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, what) }
		v := Value{
			Capacity: rapid.Uint32Range(1, core.MaxCapacity).Draw(rt, "capacity"), Width: rapid.Uint32Range(1, core.MaxWidth).Draw(rt, "width"),
			Limit: rapid.Uint64Range(0, core.MaxCapacity*core.MaxWidth).Draw(rt, "limit"),
		}
		for i := range rapid.IntRange(0, 12).Draw(rt, "permits") {
			v.Permits = append(v.Permits, PermitEntry{
				ID: fmt.Sprint("p-", i), Session: few("session", "s", "t"), Weight: rapid.SampledFrom([]uint64{1, 2, 1 << 36}).Draw(rt, "weight"),
				Host: few("host", "", "h", EscapedText("caf\u00e9 \"\\\x00\U0001f512", 64)), PID: few("pid", "", "1"),
				Label: EscapedText(rapid.String().Draw(rt, "label"), core.MaxLabel),
			})
		}
		body := valueRecord(t, &v)
		got := readValue(rt, body)
		if got.Capacity != v.Capacity || got.Width != v.Width || got.Limit != v.Limit || !slices.Equal(got.Permits, v.Permits) {
			rt.Fatalf("got  %+v\nwant %+v\n%s", got, v, body)
		}
		var all struct {
			Permits []struct{ Label *string }
		}
		if err := json.Unmarshal(body, &all); err != nil || len(all.Permits) != len(v.Permits) {
			rt.Fatalf("%v in %s", err, body)
		}
	})
}

// TestPermitStrictness: what we do not write is corrupt, and no permit is made of it.
func TestPermitStrictness(t *testing.T) {
	v := Value{Capacity: 3, Width: 2, Limit: 5, Permits: []PermitEntry{
		{ID: "p-1", Session: "s-1", Weight: 2, Host: "h-1", PID: "77", Label: "l-1"},
		{ID: "p-2", Session: "s-1", Weight: 1, Host: "h-1", PID: "77", Label: "l-1"},
	}}
	good := string(valueRecord(t, &v))
	const second = `{"id": "p-2"}`
	check := func(why, from, to string, want ReadResult) {
		if !strings.Contains(good, from) {
			t.Fatalf("%s: no %q in %s", why, from, good)
		}
		var v Version
		if got := ParseVersion([]byte(strings.Replace(good, from, to, 1)), 7, &v); got != want {
			t.Errorf("%s: %d, want %d", why, got, want)
		}
	}
	file, err := os.ReadFile("../../testdata/permits.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), `\n`, "\n"), "\t")
		check(columns[1], columns[2], columns[3], map[string]ReadResult{"good": ReadGood, "corrupt": ReadCorrupt}[columns[0]])
	}
	check("most", second, second+strings.Repeat(",\n"+second, core.MaxPermits-2), ReadGood)
	check("too many", second, second+strings.Repeat(",\n"+second, core.MaxPermits-1), ReadCorrupt)
	for n := range len(good) - 2 {
		var v Version
		if got := ParseVersion([]byte(good[:n]), 7, &v); got != ReadCorrupt {
			t.Errorf("the first %d bytes: %d", n, got)
		}
	}
}

// TestKindsDoNotMix: a lease's machine takes a semaphore for another kind and the
// other way round, corrupt or not; what has no kind is corrupt to both, and a
// reader that takes no part takes what there is.
func TestKindsDoNotMix(t *testing.T) {
	lease := goodVersion()
	semaphore := string(valueRecord(t, &Value{Capacity: 1, Width: 1}))
	released := string(AppendVersion(nil, Recorder(t, nil), &lease))
	for _, c := range []struct {
		name, body                       string
		forLease, forSemaphore, observer ReadResult
	}{
		{"a lease", released, ReadGood, ReadOther, ReadGood},
		{"a semaphore", semaphore, ReadOther, ReadGood, ReadGood},
		{"a lease, cut", released[:200], ReadCorrupt, ReadOther, ReadOther},
		{"a semaphore, cut", semaphore[:200], ReadOther, ReadCorrupt, ReadOther},
		{"a newer lease", strings.Replace(released, `"v": 1`, `"v": 2`, 1), ReadNewer, ReadNewer, ReadNewer},
		{"nothing", "{", ReadCorrupt, ReadCorrupt, ReadCorrupt},
		{"an earlier record's kind", `{"v": 1, "kind": "barrier"`, ReadCorrupt, ReadCorrupt, ReadCorrupt},
	} {
		for machine, want := range map[core.MachineKind]ReadResult{
			core.MachineLease: c.forLease, core.MachineSemaphore: c.forSemaphore, core.MachineInspection: c.observer,
		} {
			r := registerFor(t, core.Config{Machine: machine})
			r.ReadOnly = machine == core.MachineInspection
			if machine == core.MachineSemaphore {
				r.Value = &Value{}
			}
			r.ReadVersion([]byte(c.body), 7, 0)
			if machine == core.MachineInspection && want == ReadOther { // a corrupt one is shown as that
				want = r.Cur.Result
			}
			if r.Cur.Result != want {
				t.Errorf("%s, to a %s: %d, want %d", c.name, machine, r.Cur.Result, want)
			}
		}
	}
}

// TestRecordRoom: what fits is within a record, at the most of everything, an ext too; 64 KiB have
// room for a thousand permits of few processes, and for six hundred processes.
func TestRecordRoom(t *testing.T) {
	ext := `{"a": "` + strings.Repeat("x", core.MaxExt-len(`{"a": ""}`)) + `"}`
	for _, c := range []struct {
		name  string
		apart bool
		least int
	}{{"of one process", false, 1000}, {"each of its own", true, 550}} {
		n := 0
		for ; n < core.MaxPermits; n++ {
			v := somePermits(n+1, c.apart)
			v.Ext = ext
			v.Terse()
			if _, ok := v.Fits(nil); !ok {
				break
			}
		}
		if n < c.least {
			t.Errorf("%s: room for %d permits", c.name, n)
		}
		v := somePermits(n, c.apart)
		v.Ext = ext
		v.Terse()
		v.Capacity, v.Width, v.Limit = core.MaxCapacity, core.MaxWidth, core.MaxCapacity*core.MaxWidth
		long := strings.Repeat("\x01", core.MaxText)
		m := Recorder(t, func(cfg *core.Config) { cfg.Host, cfg.PID, cfg.Boot = long, long, strings.Repeat("b", core.MaxSegment) })
		m.Now = core.Instant{Mono: core.MaxClockRange, Wall: math.MaxInt64 / 4}
		id := strings.Repeat("i", core.MaxSegment)
		own := OwnVersion{
			N: 1 << 61, Origin: 1 << 61, State: core.VersionValue, Tenure: core.HolderID(id), Owner: id, Nonce: Nonce{3, 3},
			TTL: core.MaxTTL - 1, Margin: core.Minute - 1, Session: id,
		}
		body := AppendValue(nil, m, &own, v)
		if permits, _ := v.Fits(nil); len(body)-len(permits) > core.MaxRecord-recordRoom {
			t.Errorf("%s: %d bytes beside the permits", c.name, len(body)-len(permits))
		}
		var read Version
		if result := ParseVersion(body, 1<<61, &read); len(body) > core.MaxRecord || result != ReadGood {
			t.Errorf("%s: %d permits are %d bytes, read %d", c.name, n, len(body), result)
		}
	}
}

// TestRemovingNeverLengthens: a holder that gives back makes the record no longer, though
// what it had in common with the next one must then be written there.
func TestRemovingNeverLengthens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		few := func(what string) string { return rapid.SampledFrom([]string{"", "a", "bb", "ccc"}).Draw(rt, what) }
		var v Value
		for i := range rapid.IntRange(1, 8).Draw(rt, "permits") {
			v.Permits = append(v.Permits, PermitEntry{ID: fmt.Sprint(i), Session: "s" + few("session"), Weight: 1, Host: few("host"), PID: few("pid"), Label: few("label")})
		}
		before, _ := v.Fits(nil)
		out := v.Permits[rapid.IntRange(0, len(v.Permits)-1).Draw(rt, "out")].ID
		v.Remove(func(p *PermitEntry) bool { return p.ID == out })
		if after, _ := v.Fits(nil); len(after) > len(before) {
			rt.Fatalf("%s\nis longer than\n%s", after, before)
		}
	})
}

// TestAddKeepsSessionsTogether: a session's permits stand one behind the other.
func TestAddKeepsSessionsTogether(t *testing.T) {
	var v Value
	for _, p := range []string{"1s", "2t", "3s", "4u", "5t"} {
		v.Add(PermitEntry{ID: p[:1], Session: p[1:], Weight: 2})
	}
	got := ""
	for i := range v.Permits {
		got += v.Permits[i].ID + v.Permits[i].Session + " "
	}
	if got != "1s 3s 2t 5t 4u " || v.Held() != 10 || v.Find("4") != 4 || v.Find("6") != -1 {
		t.Errorf("%s, held %d", got, v.Held())
	}
}

// TestEachPermit: what is left out is that of the permit before; texts are decoded;
// what is no permit ends it.
func TestEachPermit(t *testing.T) {
	v := Value{Permits: []PermitEntry{
		{ID: "p", Session: "s", Weight: 3, Host: EscapedText("caf\u00e9\n", 64), PID: "1", Label: "l"},
		{ID: "q", Session: "s", Weight: 1, Host: EscapedText("caf\u00e9\n", 64)},
		{ID: "r", Session: "t", Weight: 1},
	}}
	raw, _ := v.Fits(nil)
	var got []Permit
	note := func(p Permit) { got = append(got, p) }
	EachPermit(raw, note)
	want := []Permit{
		{"p", "s", 3, "caf\u00e9\n", "1", "l"}, {"q", "s", 1, "caf\u00e9\n", "", ""}, {"r", "t", 1, "", "", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for most := range len(raw) + 2 {
		got = nil
		EachPermit(ShownPermits(raw, most), note)
		if cut := ShownPermits(raw, most); len(cut) > most || !slices.Equal(got, want[:len(got)]) || !isPermits([]byte("["+string(cut)+"]")) {
			t.Fatalf("cut to %d: %q", most, cut)
		}
	}
	if len(got) != 3 {
		t.Errorf("of all of it %d are shown", len(got))
	}
	got = nil
	EachPermit([]byte(`{"id": "p", "session": "s"}, {"id": 7}, {"id": "r"}`), note)
	if len(got) != 1 {
		t.Errorf("%+v", got)
	}
	EachPermit(nil, func(Permit) { t.Error("a permit of nothing") })
}

// FuzzPermits: no bytes make a panic, what is read is written and read the same, and
// what is shown is a beginning of it.
func FuzzPermits(f *testing.F) {
	raw, _ := somePermits(3, true).Fits(nil)
	f.Add(raw)
	f.Add([]byte(`{"id":"a","session":"b","weight":2,"host":"\u00e9\ud800"},{"id":"c","host":""}`))
	f.Add([]byte(`{"id": "a", "owner": "o", "session": "b", "label": "\""} ,`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		body := []byte(strings.Replace(string(valueRecord(t, &Value{Capacity: 1, Width: 1})), `"permits": []`, `"permits": [`+string(raw)+`]`, 1))
		count := 0
		EachPermit(raw, func(Permit) { count++ })
		ShownPermits(raw, 100)
		var from Version
		if ParseVersion(body, 7, &from) != ReadGood {
			return
		}
		var v Value
		v.Take(&from)
		if len(v.Permits) > core.MaxPermits || len(v.Permits) != count {
			t.Fatalf("%d permits, of which %d are shown", len(v.Permits), count)
		}
		again := valueRecord(t, &v)
		if len(again) > core.MaxRecord { // somebody wrote it tighter than we do
			return
		}
		if got := readValue(t, again); !slices.Equal(got.Permits, v.Permits) {
			t.Fatalf("got  %+v\nwant %+v", got.Permits, v.Permits)
		}
	})
}
