package keep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/wire"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// parent is the other end of a keeper's messages.
type parent struct {
	t     *testing.T
	in    *io.PipeWriter
	heard *msgpack.Decoder
	words []int64
	ended chan error
}

// message is one that a keeper has said.
type message struct {
	said
	Reason string `json:"reason"`
	At     int64  `json:"at_ns"`
	Token  uint64 `json:"token"`
	with   with
}

// dirOf is a directory that is left if Windows does not remove it: what is mapped, or a keeper that nobody ends still writes.
func dirOf(t *testing.T) string {
	dir, err := os.MkdirTemp("", "mopslock-keep-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func urlOf(dir string) string { return (&store.Location{Scheme: "file", Dir: dir}).String() }

func serve(t *testing.T) *parent {
	t.Helper()
	words := make([]int64, 64)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &parent{t: t, in: inW, heard: msgpack.NewDecoder(outR), words: words, ended: make(chan error, 1)}
	p.heard.SetCustomStructTag("json")
	go func() {
		p.ended <- Serve(inR, outW, Options{Belief: &Belief{words}, Host: host.Options{Memory: "-"}})
		_ = outW.Close()
	}()
	t.Cleanup(func() { _ = inW.Close() })
	if m := p.hear("ready"); m.Messages != Messages || m.Version != core.Version || m.PID != os.Getpid() {
		t.Fatalf("ready says %+v", m.said)
	}
	return p
}

// open opens a directory as store 1.
func (p *parent) open(dir string) *parent {
	p.say(1, asked{Kind: "open", Call: 1, URL: urlOf(dir)}, nil)
	p.hear("opened")
	return p
}

func (p *parent) say(store uint64, m any, with any) {
	p.t.Helper()
	values := []any{store, m}
	if with != nil {
		values = append(values, with)
	}
	if _, err := p.in.Write(encode(values)); err != nil {
		p.t.Fatal(err)
	}
}

// command gives the client of store 1 a command.
func (p *parent) command(in wire.Input, with map[string]any) {
	p.t.Helper()
	if in.Terms != nil && in.Terms.Protocol == "" {
		in.Terms.Protocol = "strict"
	}
	p.say(1, in, with)
}

func (p *parent) acquire(claim uint64, name string) {
	p.command(wire.Input{Kind: "acquire", Wait: int64(core.Forever), Claim: claim, Terms: &wire.Config{Name: name}}, map[string]any{"slot": claim})
}

// hear reads messages until one of a kind, and returns it.
func (p *parent) hear(kind string) message {
	p.t.Helper()
	for {
		n, err := p.heard.DecodeArrayLen()
		var m message
		if err == nil {
			_, err = p.heard.DecodeUint64()
		}
		if err == nil {
			err = p.heard.Decode(&m)
		}
		if err == nil && n == 3 {
			err = p.heard.Decode(&m.with)
		}
		if err != nil {
			p.t.Fatalf("while %q was awaited: %v", kind, err)
		}
		if m.Kind == kind {
			return m
		}
		if m.Kind == "fault" || m.Kind == "not_begun" {
			p.t.Fatalf("%q was awaited, and came %+v", kind, m)
		}
	}
}

func (p *parent) word(slot int) int64 { return atomic.LoadInt64(&p.words[slot]) }

func TestKeepsALeaseForAnother(t *testing.T) {
	p := serve(t).open(dirOf(t))
	p.acquire(1, "n")
	held := p.hear("held")
	if word := p.word(1); held.Token == 0 || word>>tenureBits != held.At>>tenureBits || word&0xff != 0 {
		t.Errorf("held until %d, and the word is %d", held.At, word)
	}
	p.command(wire.Input{Kind: "release", Claim: 1}, nil)
	p.hear("released")
	if word := p.word(1); word != 0 {
		t.Errorf("after the release the word is %d", word)
	}
	p.acquire(2, "n")
	if again := p.hear("held"); again.Token <= held.Token {
		t.Errorf("token %d after %d", again.Token, held.Token)
	}
	p.command(wire.Input{Kind: "close"}, nil)
	p.hear("closed")
}

func TestTellsAnswersWhoseClaimAsksForThem(t *testing.T) {
	p := serve(t).open(dirOf(t))
	p.command(wire.Input{Kind: "acquire", Claim: 1, Terms: &wire.Config{Name: "n", Protocol: "lastwriter"}}, map[string]any{"slot": 1, "answers": true})
	for {
		if m := p.hear("answered"); m.Claim == 1 && m.Verb == "put" && m.Outcome == "yes" && bytes.Contains(m.Body, []byte("writer_id")) {
			break
		}
	}
	p.hear("held")
}

// A parent that cannot read the keeper's clock asks for it, and finds a deadline after it.
func TestTellsItsClock(t *testing.T) {
	p := serve(t).open(dirOf(t))
	clock := func() int64 {
		p.say(1, asked{Kind: "ping", Call: 2}, nil)
		return p.hear("done").Mono
	}
	before := clock()
	p.acquire(1, "n")
	held := p.hear("held")
	after := clock()
	if sent := held.At - (54 * time.Second).Nanoseconds(); before == 0 || sent < before || sent > after { // a TTL of 60 s less its margin
		t.Errorf("the clock is %d and %d, and the deadline %d", before, after, held.At)
	}
}

func TestTakesTheEnvironmentOfAStore(t *testing.T) {
	const name = "MOPSLOCK_TEST_CREDENTIAL"
	t.Setenv(name, "old")
	p := serve(t)
	p.say(1, asked{Kind: "open", Call: 1, URL: urlOf(dirOf(t)), Environment: map[string]string{name: "new"}}, nil)
	p.hear("opened")
	if value := os.Getenv(name); value != "new" {
		t.Errorf("the store was opened with %q", value)
	}
}

func TestEndsWithItsMessagesAndReleasesNothing(t *testing.T) {
	dir := dirOf(t)
	p := serve(t).open(dir)
	p.acquire(1, "n")
	p.hear("held")
	_ = p.in.Close()
	if err := <-p.ended; err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(t.Context(), urlOf(dir), &host.Options{Memory: "-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	if s, err := h.Inspect(t.Context(), "n"); err != nil || s.State != core.ObservedHeld {
		t.Errorf("the lease is %v, %v", s.State, err)
	}
}

func TestAnswersWhatItCannotDo(t *testing.T) {
	p := serve(t)
	p.say(1, asked{Kind: "open", Call: 7, URL: "nowhere://x"}, nil)
	if m := p.next(); m.Kind != "fault" || m.Call != 7 || m.Fault != "argument" || !strings.Contains(m.Text, "nowhere") {
		t.Errorf("%+v", m)
	}
	p.say(1, map[string]any{"kind": "sing"}, nil)
	if m := p.next(); m.Kind != "fault" || !strings.Contains(m.Text, "sing") {
		t.Errorf("%+v", m)
	}
	p.open(dirOf(t))
	p.say(1, asked{Kind: "open", Call: 6, URL: urlOf(dirOf(t))}, nil)
	if m := p.next(); m.Kind != "fault" || m.Call != 6 || !strings.Contains(m.Text, "is open") {
		t.Errorf("%+v", m)
	}
	p.command(wire.Input{Kind: "acquire", Claim: 1, Terms: &wire.Config{Name: "a//b"}}, map[string]any{"slot": 1})
	if m := p.next(); m.Kind != "not_begun" || m.Claim != 1 || m.Fault != "argument" {
		t.Errorf("%+v", m)
	}
	p.say(1, asked{Kind: "fetch", Call: 8, Key: "none/result", Path: filepath.Join(dirOf(t), "x")}, nil)
	if m := p.next(); m.Kind != "fault" || m.Call != 8 || m.Fault != "absent" {
		t.Errorf("%+v", m)
	}
}

// next reads one message, whatever it is.
func (p *parent) next() (m message) {
	p.t.Helper()
	if _, err := p.heard.DecodeArrayLen(); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.heard.DecodeUint64(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.heard.Decode(&m); err != nil {
		p.t.Fatal(err)
	}
	return m
}

func TestStoresTheOutputOfWorkAndFetchesIt(t *testing.T) {
	dir, files := dirOf(t), dirOf(t)
	p := serve(t).open(dir)
	output, fetched := filepath.Join(files, "output"), filepath.Join(files, "fetched")
	for _, path := range []string{output, fetched} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.command(wire.Input{Kind: "invoke", Wait: int64(core.Forever), Claim: 1, Terms: &wire.Config{Name: "w"}}, map[string]any{"slot": 1})
	p.hear("launch")
	p.command(wire.Input{Kind: "ended", Outcome: "yes", Result: true, Claim: 1}, map[string]any{"path": output})
	if found := p.hear("found"); !found.with.Own {
		t.Error("the result is not said to be ours")
	}
	p.hear("left")
	if word := p.word(1); word != 0 {
		t.Errorf("when all is given back the word is %d", word)
	}
	if err := os.Truncate(output, 0); err != nil {
		t.Fatal(err)
	}
	p.say(1, asked{Kind: "fetch", Call: 2, Key: "w/result", Path: fetched}, nil)
	p.hear("done")
	if body, err := os.ReadFile(fetched); err != nil || len(body) != 1<<20 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestWordsOfTenuresAndSessions(t *testing.T) {
	memory := &Belief{make([]int64, 8)}
	b := newBeliefs(memory)
	until := func(slot int) string {
		word := memory.words[slot]
		return fmt.Sprintf("%d of %d", word>>tenureBits<<tenureBits, word&0xff)
	}
	b.begin(1, 1, false)
	b.begin(2, 2, false)
	say := func(kind core.ActionKind, claim uint64, at int64, on uint64) bool {
		return b.take(&core.Action{Kind: kind, Claim: claim, At: at << tenureBits, On: on}, false)
	}
	steps := []struct {
		kind      core.ActionKind
		claim     uint64
		at        int64
		on        uint64
		told      bool
		one, both string
	}{
		{core.ActionHeld, 0, 10, 5, true, "0 of 0", "0 of 0"},
		{core.ActionHeld, 1, 3, 5, true, "2560 of 0", "0 of 0"},
		{core.ActionHeld, 2, 4, 0, true, "2560 of 0", "1024 of 0"},
		{core.ActionRenewed, 0, 20, 5, false, "5120 of 0", "1024 of 0"},
		{core.ActionRenewed, 2, 6, 0, false, "5120 of 0", "1536 of 0"},
		{core.ActionDeadline, 1, 12, 0, false, "3072 of 0", "1536 of 0"}, // a fix: the session counts no more
		{core.ActionRenewed, 0, 30, 5, false, "3072 of 0", "1536 of 0"},
		{core.ActionLost, 1, 0, 0, true, "0 of 0", "1536 of 0"},
		{core.ActionHeld, 1, 40, 0, true, "10240 of 1", "1536 of 0"}, // of work: another tenure
	}
	for _, s := range steps {
		told := say(s.kind, s.claim, s.at, s.on)
		if told != s.told || until(1) != s.one || until(2) != s.both {
			t.Errorf("after %v of %d at %d on %d: told %v, words %s and %s, not %v, %s and %s", s.kind, s.claim, s.at, s.on, told, until(1), until(2), s.told, s.one, s.both)
		}
	}
}

func TestBeliefOfAFile(t *testing.T) {
	path := filepath.Join(dirOf(t), "belief")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b, err := OpenBelief(file)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system maps no files: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.set(3, 1<<20, 2)
	if body, err := os.ReadFile(path); err != nil || body[3*8] != 2 && body[3*8+7] != 2 {
		t.Errorf("% x, %v", body[24:32], err)
	}
	if b.Words() != 512 {
		t.Errorf("%d words", b.Words())
	}
}

func TestAwaitEndOfAProcessThatHasEnded(t *testing.T) {
	ended := make(chan struct{})
	go func() {
		AwaitEnd(1 << 22) // no kernel has so many
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it waits for nobody")
	}
}
