package core

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// somePermits is a value with so many permits, each of a process of its own if apart.
func somePermits(n int, apart bool) *value {
	v := &value{capacity: 1000, width: 2}
	for i := range n {
		p := permit{
			id: string(seedUUID([16]byte{byte(i), byte(i >> 8), 1})), session: string(seedUUID([16]byte{2})), weight: 1,
			host: "worker-7f9c4d", pid: "12345", label: "nightly",
		}
		if apart {
			p.session, p.host, p.pid = string(seedUUID([16]byte{byte(i), byte(i >> 8), 3})), fmt.Sprint("worker-", i), fmt.Sprint(i)
		}
		v.permits = append(v.permits, p)
	}
	return v
}

// valueRecord is the record of version 7 with a value.
func valueRecord(tb testing.TB, v *value) []byte {
	return recordOf(recorder(tb, nil), 7, v)
}

// recordOf is the record of a version of a semaphore.
func recordOf(m *machine, n Epoch, of *value) []byte {
	v := ownVersion{
		n: n, origin: n, state: VersionValue, tenure: "x", owner: "x", nonce: nonce{3, uint64(n)}, ttl: 20 * second, margin: 2 * second,
	}
	return appendValue(nil, m, &v, of)
}

func readValue(t interface{ Fatalf(string, ...any) }, body []byte) (v value) {
	var from version
	if result := parseVersion(body, 7, &from); result != readGood || !from.semaphore {
		t.Fatalf("read %d: %s", result, body)
	}
	v.take(&from)
	return v
}

// TestValueRoundTrip: what is written is read, whatever is left out between, in any
// order; and any reader of JSON reads it.
func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		few := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, what) }
		v := value{
			capacity: rapid.Uint32Range(1, MaxCapacity).Draw(rt, "capacity"), width: rapid.Uint32Range(1, MaxWidth).Draw(rt, "width"),
			limit: rapid.Uint64Range(0, MaxCapacity*MaxWidth).Draw(rt, "limit"),
		}
		for i := range rapid.IntRange(0, 12).Draw(rt, "permits") {
			v.permits = append(v.permits, permit{
				id: fmt.Sprint("p-", i), session: few("session", "s", "t"), weight: rapid.SampledFrom([]uint64{1, 2, 1 << 36}).Draw(rt, "weight"),
				host: few("host", "", "h", escapedText("caf\u00e9 \"\\\x00\U0001f512", 64)), pid: few("pid", "", "1"),
				label: escapedText(rapid.String().Draw(rt, "label"), MaxLabel),
			})
		}
		body := valueRecord(t, &v)
		got := readValue(rt, body)
		if got.capacity != v.capacity || got.width != v.width || got.limit != v.limit || !slices.Equal(got.permits, v.permits) {
			rt.Fatalf("got  %+v\nwant %+v\n%s", got, v, body)
		}
		var all struct {
			Permits []struct{ Label *string }
		}
		if err := json.Unmarshal(body, &all); err != nil || len(all.Permits) != len(v.permits) {
			rt.Fatalf("%v in %s", err, body)
		}
	})
}

// TestPermitStrictness: what we do not write is corrupt, and no permit is made of it.
func TestPermitStrictness(t *testing.T) {
	v := value{capacity: 3, width: 2, limit: 5, permits: []permit{
		{id: "p-1", session: "s-1", weight: 2, host: "h-1", pid: "77", label: "l-1"},
		{id: "p-2", session: "s-1", weight: 1, host: "h-1", pid: "77", label: "l-1"},
	}}
	good := string(valueRecord(t, &v))
	const second = `{"id": "p-2"}`
	check := func(why, from, to string, want readResult) {
		if !strings.Contains(good, from) {
			t.Fatalf("%s: no %q in %s", why, from, good)
		}
		var v version
		if got := parseVersion([]byte(strings.Replace(good, from, to, 1)), 7, &v); got != want {
			t.Errorf("%s: %d, want %d", why, got, want)
		}
	}
	file, err := os.ReadFile("testdata/permits.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), `\n`, "\n"), "\t")
		check(columns[1], columns[2], columns[3], map[string]readResult{"good": readGood, "corrupt": readCorrupt}[columns[0]])
	}
	check("most", second, second+strings.Repeat(",\n"+second, MaxPermits-2), readGood)
	check("too many", second, second+strings.Repeat(",\n"+second, MaxPermits-1), readCorrupt)
	for n := range len(good) - 2 {
		var v version
		if got := parseVersion([]byte(good[:n]), 7, &v); got != readCorrupt {
			t.Errorf("the first %d bytes: %d", n, got)
		}
	}
}

// TestKindsDoNotMix: a lease's machine takes a semaphore for another kind and the
// other way round, corrupt or not; what has no kind is corrupt to both, and whoever
// only looks takes what there is.
func TestKindsDoNotMix(t *testing.T) {
	lease := goodVersion()
	semaphore := string(valueRecord(t, &value{capacity: 1, width: 1}))
	released := string(appendVersion(nil, recorder(t, nil), &lease))
	for _, c := range []struct {
		name, body                       string
		forLease, forSemaphore, observer readResult
	}{
		{"a lease", released, readGood, readOther, readGood},
		{"a semaphore", semaphore, readOther, readGood, readGood},
		{"a lease, cut", released[:200], readCorrupt, readOther, readOther},
		{"a semaphore, cut", semaphore[:200], readOther, readCorrupt, readOther},
		{"a newer lease", strings.Replace(released, `"v": 1`, `"v": 2`, 1), readNewer, readNewer, readNewer},
		{"nothing", "{", readCorrupt, readCorrupt, readCorrupt},
		{"an earlier record's kind", `{"v": 1, "kind": "barrier"`, readCorrupt, readCorrupt, readCorrupt},
	} {
		for machine, want := range map[MachineKind]readResult{
			MachineLease: c.forLease, MachineSemaphore: c.forSemaphore, MachineObserver: c.observer,
		} {
			r := registerFor(t, Config{Machine: machine})
			r.passive = machine == MachineObserver
			if machine == MachineSemaphore {
				r.value = &value{}
			}
			r.readVersion([]byte(c.body), 7, 0)
			if machine == MachineObserver && want == readOther { // a corrupt one is shown as that
				want = r.cur.result
			}
			if r.cur.result != want {
				t.Errorf("%s, to a %s: %d, want %d", c.name, machine, r.cur.result, want)
			}
		}
	}
}

// TestRecordRoom: what fits is within a record, at the most of everything; 64 KiB have
// room for a thousand permits of few processes, and for six hundred processes.
func TestRecordRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		apart bool
		least int
	}{{"of one process", false, 1000}, {"each of its own", true, 550}} {
		n := 0
		for ; n < MaxPermits; n++ {
			v := somePermits(n+1, c.apart)
			v.terse()
			if _, ok := v.fits(nil); !ok {
				break
			}
		}
		if n < c.least {
			t.Errorf("%s: room for %d permits", c.name, n)
		}
		v := somePermits(n, c.apart)
		v.terse()
		v.capacity, v.width, v.limit = MaxCapacity, MaxWidth, MaxCapacity*MaxWidth
		long := strings.Repeat("\x01", MaxText)
		m := recorder(t, func(cfg *Config) { cfg.Host, cfg.PID, cfg.Boot = long, long, strings.Repeat("b", MaxSegment) })
		m.now = Instant{MaxClockRange, math.MaxInt64 / 4}
		body := recordOf(m, 1<<61, v)
		var read version
		if result := parseVersion(body, 1<<61, &read); len(body) > MaxRecord || result != readGood {
			t.Errorf("%s: %d permits are %d bytes, read %d", c.name, n, len(body), result)
		}
	}
}

// TestRemovingNeverLengthens: whoever gives back makes the record no longer, though
// what he had in common with the next one must then be written there.
func TestRemovingNeverLengthens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		few := func(what string) string { return rapid.SampledFrom([]string{"", "a", "bb", "ccc"}).Draw(rt, what) }
		var v value
		for i := range rapid.IntRange(1, 8).Draw(rt, "permits") {
			v.permits = append(v.permits, permit{id: fmt.Sprint(i), session: "s" + few("session"), weight: 1, host: few("host"), pid: few("pid"), label: few("label")})
		}
		before, _ := v.fits(nil)
		out := v.permits[rapid.IntRange(0, len(v.permits)-1).Draw(rt, "out")].id
		v.remove(func(p *permit) bool { return p.id == out })
		if after, _ := v.fits(nil); len(after) > len(before) {
			rt.Fatalf("%s\nis longer than\n%s", after, before)
		}
	})
}

// TestAddKeepsSessionsTogether: a session's permits stand one behind the other.
func TestAddKeepsSessionsTogether(t *testing.T) {
	var v value
	for _, p := range []string{"1s", "2t", "3s", "4u", "5t"} {
		v.add(permit{id: p[:1], session: p[1:], weight: 2})
	}
	got := ""
	for i := range v.permits {
		got += v.permits[i].id + v.permits[i].session + " "
	}
	if got != "1s 3s 2t 5t 4u " || v.held() != 10 || v.find("4") != 4 || v.find("6") != -1 {
		t.Errorf("%s, held %d", got, v.held())
	}
}

// TestEachPermit: what is left out is that of the permit before; texts are decoded;
// what is no permit ends it.
func TestEachPermit(t *testing.T) {
	v := value{permits: []permit{
		{id: "p", session: "s", weight: 3, host: escapedText("caf\u00e9\n", 64), pid: "1", label: "l"},
		{id: "q", session: "s", weight: 1, host: escapedText("caf\u00e9\n", 64)},
		{id: "r", session: "t", weight: 1},
	}}
	raw, _ := v.fits(nil)
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
		EachPermit(shownPermits(raw, most), note)
		if cut := shownPermits(raw, most); len(cut) > most || !slices.Equal(got, want[:len(got)]) || !isPermits([]byte("["+string(cut)+"]")) {
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
	raw, _ := somePermits(3, true).fits(nil)
	f.Add(raw)
	f.Add([]byte(`{"id":"a","session":"b","weight":2,"host":"\u00e9\ud800"},{"id":"c","host":""}`))
	f.Add([]byte(`{"id": "a", "owner": "o", "session": "b", "label": "\""} ,`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		body := []byte(strings.Replace(string(valueRecord(t, &value{capacity: 1, width: 1})), `"permits": []`, `"permits": [`+string(raw)+`]`, 1))
		count := 0
		EachPermit(raw, func(Permit) { count++ })
		shownPermits(raw, 100)
		var from version
		if parseVersion(body, 7, &from) != readGood {
			return
		}
		var v value
		v.take(&from)
		if len(v.permits) > MaxPermits || len(v.permits) != count {
			t.Fatalf("%d permits, of which %d are shown", len(v.permits), count)
		}
		again := valueRecord(t, &v)
		if len(again) > MaxRecord { // somebody wrote it tighter than we do
			return
		}
		if got := readValue(t, again); !slices.Equal(got.permits, v.permits) {
			t.Fatalf("got  %+v\nwant %+v", got.permits, v.permits)
		}
	})
}
