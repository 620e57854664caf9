package host

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mopslock/mopslock/core"
)

var sample = Handle{
	Name: "reports/nightly", Store: "s3://bucket/locks?region=eu-west-1&use_path_style=true", Protocol: core.ProtocolLastWriter, Holder: "01234567-89ab-4def-8123-456789abcdef",
	TTL: core.TTL(88 * time.Second), Acquired: time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
}

// The text stays forever: environment variables of running commands carry it. People and
// shells read a store's URL in it as it was given.
func TestHandleText(t *testing.T) {
	const want = `{"name":"reports/nightly","store":"s3://bucket/locks?region=eu-west-1&use_path_style=true","protocol":"lastwriter",` +
		`"holder":"01234567-89ab-4def-8123-456789abcdef","epoch":0,"token":0,"ttl_s":88,` +
		`"first_acquired_at":"2026-01-02T03:04:05.678901+00:00"}`
	if got := sample.String(); got != want {
		t.Fatalf("text\n%s, want\n%s", got, want)
	}
	for _, text := range []string{want, " " + want + "\n", strings.Replace(want, `"epoch"`, `"newer":[1],"epoch"`, 1)} {
		got, err := ParseHandle(text)
		got.Acquired = got.Acquired.UTC()
		if err != nil || got != sample {
			t.Fatalf("parsed %+v, %v", got, err)
		}
	}
	owner := sample
	owner.Owner = "o"
	if !strings.HasSuffix(owner.String(), `,"owner":"o"}`) {
		t.Fatal(owner)
	}
}

func TestParseHandleRefuses(t *testing.T) {
	good := sample.String()
	for _, test := range []struct{ old, new, want string }{
		{good, "", "EOF"},
		{good, "[]", "cannot unmarshal"},
		{good, good + "x", "something follows"},
		{good, "{}", "name is missing"},
		{good, "{}", "store is missing"},
		{good, "{}", "holder is missing"},
		{good, "{}", "ttl_s is missing"},
		{good, "{}", "protocol is not strict, bridge or lastwriter"},
		{good, "{}", "first_acquired_at is missing"},
		{"lastwriter", "paxos", "protocol is not strict, bridge or lastwriter"},
		{"lastwriter", "strict", "epoch is missing"},
		{"lastwriter", "bridge", "epoch is missing"},
		{"reports/nightly", "a//b", "name"},
		{`:88`, `:0`, "which only strict has"},
		{`:88`, `:-1`, "30 days"},
		{`:88`, `:1e-10`, "ttl_s"},
		{`:88`, `:1e99`, "30 days"},
		{`:88`, `:1e999`, "cannot unmarshal"},
		{`:88`, `:"88"`, "cannot unmarshal"},
		{"2026-01-02", "2026-13-02", "first_acquired_at"},
		{"2026-01-02", "9999-01-02", "first_acquired_at"},
		{"01234567", strings.Repeat("x", core.MaxHolder), "holder"},
	} {
		_, err := ParseHandle(strings.Replace(good, test.old, test.new, 1))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s -> %.20s: error %v lacks %q", test.old, test.new, err, test.want)
		}
		if err != nil && strings.Contains(test.want, "protocol") && strings.Contains(err.Error(), "epoch") {
			t.Errorf("%v: an unknown protocol needs no epoch", err)
		}
	}
}

func TestHandleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Handle{
			Protocol: rapid.SampledFrom([]core.Protocol{core.ProtocolLastWriter, core.ProtocolStrict, core.ProtocolBridge}).Draw(t, "protocol"),
			Name:     rapid.StringMatching(`[a-zé"<&]{1,9}(/[a-z]{1,9}){0,3}`).Draw(t, "name"),
			Store:    rapid.StringN(1, 50, -1).Draw(t, "store"),
			Holder:   rapid.StringN(1, 50, -1).Draw(t, "holder"),
			Epoch:    rapid.Uint64Min(1).Draw(t, "epoch"), Token: rapid.Uint64().Draw(t, "token"),
			TTL:      core.TTL(time.Duration(rapid.Int64Range(1, int64(core.MaxTTL)).Draw(t, "ttl"))),
			Acquired: time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "acquired")).UTC(),
			Owner:    rapid.StringN(0, 50, -1).Draw(t, "owner"),
		}
		got, err := ParseHandle(h.String())
		if err != nil {
			t.Fatal(err)
		}
		got.Acquired = got.Acquired.UTC()
		if got != h {
			t.Fatalf("%+v became %+v", h, got)
		}
	})
}

// Whatever is taken at all is taken for the same after one more round.
func FuzzParseHandle(f *testing.F) {
	f.Add(sample.String())
	f.Add("{}")
	f.Add(strings.Replace(sample.String(), "2026", "0001", 1))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHandle(text)
		if err != nil {
			return
		}
		if core.CheckName(h.Name) != nil || h.Holder == "" || h.Store == "" || h.TTL <= 0 && !(h.TTL == core.TTLEndless && h.Protocol == core.ProtocolStrict) || h.TTL.Duration() > core.MaxTTL {
			t.Fatalf("took %+v", h)
		}
		h.Acquired = h.Acquired.Truncate(time.Microsecond).UTC()
		again, err := ParseHandle(h.String())
		again.Acquired = again.Acquired.UTC()
		if err != nil || again != h {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

// A lease without a TTL is handed on, too.
func TestHandleOfStrict(t *testing.T) {
	strict := sample
	strict.Protocol, strict.Epoch, strict.Token, strict.TTL = core.ProtocolStrict, 12, 9, core.TTLEndless
	text := strict.String()
	for _, part := range []string{`"protocol":"strict"`, `"epoch":12,"token":9`, `"ttl_s":0`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %s", text, part)
		}
	}
	got, err := ParseHandle(text)
	if got.Acquired = got.Acquired.UTC(); err != nil || got != strict {
		t.Errorf("parsed %+v, %v", got, err)
	}
	if h, err := ParseHandle(strings.Replace(text, `"ttl_s":0`, `"ttl_s":1e-10`, 1)); err == nil {
		t.Errorf("next to nothing became no TTL: %+v", h)
	}
}
