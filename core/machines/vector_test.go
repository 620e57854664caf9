package machines

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
)

// A vector is what went into the core and what came out, as bytes, for every
// engine and language to repeat: see testdata/README.md. They are
// written from the scripts, and from the messages that break a rule:
//
//	go test ./core -run TestVectors -update
const vectorDir = "../testdata/vectors"

// vector writes one file.
type vector struct {
	bytes.Buffer
	registry Registry
	machines []Handle // by the number that they have in the file
}

func newVector(theorem, from string) *vector {
	v := &vector{}
	fmt.Fprintf(v, "# %s\n# Written from %s by `make generate`; do not edit.\n", theorem, from)
	return v
}

// made adds a machine and answers its number; messages that make none add nothing.
func (v *vector) made(config []byte) int {
	h, answer := v.registry.New(nil, config)
	v.line("new", len(v.machines)+1, config)
	v.answer(answer)
	if h != 0 {
		v.machines = append(v.machines, h)
	}
	return len(v.machines)
}

func (v *vector) stepped(number int, input []byte) []byte {
	answer := v.registry.Step(nil, v.machines[number-1], input)
	v.line("step", number, input)
	v.answer(answer)
	return answer
}

func (v *vector) line(verb string, number int, message []byte) {
	text := hex.EncodeToString(message)
	if text == "" {
		text = "-"
	}
	fmt.Fprintf(v, "%s %d %s\n", verb, number, text)
}

// end drops every machine: an engine that keeps them would fill up.
func (v *vector) end() []byte {
	for i := range v.machines {
		fmt.Fprintf(v, "drop %d\n", i+1)
	}
	return v.Bytes()
}

func (v *vector) answer(message []byte) { fmt.Fprintf(v, "answer %x\n", message) }

// vectors is every file by its name.
func vectors(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	for _, path := range scripts(t) {
		name := filepath.Base(path)
		files[name+".vec"] = play(t, path).vector(t, name)
	}
	files["long_texts.vec"] = longTexts()
	files["semaphore_crowded.vec"] = crowdedSemaphore()
	files["malformed_config.vec"] = malformedVector(t, "config")
	files["malformed_input.vec"] = malformedVector(t, "input")
	files["refused_config.vec"] = refusedConfigs()
	files["refused_step.vec"] = refusedSteps()
	files["strict_refused_config.vec"] = strictRefusedConfigs()
	files["strict_refused_step.vec"] = strictRefusedSteps()
	maps.Copy(files, bucketsVectors(t))
	maps.Copy(files, clientVectors(t))
	return files
}

// vector is what the machines of a script were told and said.
func (w *world) vector(t *testing.T, script string) []byte {
	text, err := os.ReadFile(filepath.Join("../testdata/scripts", script))
	if err != nil {
		t.Fatal(err)
	}
	theorem, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
	v := newVector(theorem, "testdata/scripts/"+script)
	numbers := map[*actor]int{}
	for _, told := range w.told {
		if told.input == nil {
			numbers[told.actor] = v.made(told.config)
			continue
		}
		if answer := v.stepped(numbers[told.actor], told.input); !bytes.Equal(answer, told.answer) {
			t.Errorf("%s: %s: the registry answers %x, the machine %x", script, told.actor.name, answer, told.answer)
		}
	}
	return v.end()
}

// malformedVector is every message that breaks a rule.
func malformedVector(t *testing.T, sort string) []byte {
	v := newVector("Every message of the sort "+sort+" that breaks a rule is refused by that rule, and changes nothing.",
		"testdata/malformed.txt")
	v.made(leaseConfig())
	v.stepped(1, core.AppendInput(nil, core.Instant{Mono: 1, Wall: 2}, &core.Event{Kind: core.EventAcquire}))
	say := func(message []byte) { v.stepped(1, message) }
	if sort == "config" {
		say = func(message []byte) { v.made(message) }
	}
	say(make([]byte, core.MaxMessage+1))
	malformedLines(t, func(of string, message []byte, _ string) {
		if of == sort {
			say(message)
		}
	})
	v.stepped(1, core.AppendInput(nil, core.Instant{Mono: 1, Wall: 2}, &core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeNo}))
	return v.end()
}

// malformedLines calls each with every message of testdata/malformed.txt and the rule
// that it breaks.
func malformedLines(t *testing.T, each func(sort string, message []byte, rule string)) {
	t.Helper()
	file, err := os.ReadFile("../testdata/malformed.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var sort string
		var offset int
		var message []byte
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%s %d %q", &sort, &offset, &message); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		each(sort, message, strings.TrimSpace(line[strings.LastIndex(line, "\" ")+2:]))
	}
}

// longTexts has records as large as a record may be, and a TTL that is warned
// of: what was observed stands in two actions.
func longTexts() []byte {
	v := newVector("What somebody wrote into a record fits an answer, however long it is, and is cut between characters.", "vector_test.go")
	companion := core.AppendConfig(nil, &core.Config{
		Machine: core.MachineCompanion, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "n", Holder: "h"}, Seed: [16]byte{2},
	})
	for _, text := range []string{
		strings.Repeat("x", 60_000), strings.Repeat("\u00fc", 400), strings.Repeat("\\u00fc", 400), strings.Repeat("\\n", 600),
	} {
		for _, format := range []string{
			`{"writer_id": "a%s", "expire_s": 61, "written_at": %q, "hostname": "b"}`,
			`{"writer_id": "b", "expire_s": 61, "written_at": %[2]q, "hostname": "a%[1]s", "pid": "%[1].900s"}`,
		} {
			body := fmt.Appendf(nil, format, text, core.FormatStamp(worldStart))
			for _, config := range [][]byte{leaseConfig(), companion} {
				n, kind := v.made(config), core.EventAcquire
				if bytes.Equal(config, companion) {
					kind = core.EventAccompany
				}
				v.stepped(n, core.AppendInput(nil, core.Instant{Mono: 1, Wall: worldStart}, &core.Event{Kind: kind, Wait: 0}))
				v.stepped(n, core.AppendInput(nil, core.Instant{Mono: 2, Wall: worldStart}, &core.Event{
					Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Body: body,
				}))
			}
		}
	}
	return v.end()
}

// crowdedSemaphore has a record that is as long as one may be.
func crowdedSemaphore() []byte {
	v := newVector("Whoever comes to a semaphore whose record has no room for another holder is told so.", "vector_test.go")
	cfg := core.Config{Machine: core.MachineSemaphore, Terms: core.Terms{Protocol: core.ProtocolStrict, Name: "n"}, Seed: [16]byte{1}, OwnStore: true}
	writer, err := semaphore.New(cfg)
	if err != nil {
		panic(err)
	}
	number := v.made(core.AppendConfig(nil, &cfg))
	for i, ev := range []core.Event{
		{Kind: core.EventAcquire, Permit: 1, Capacity: 2000, Width: 1, Wait: core.Forever},
		{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes, Entries: []core.Entry{{Key: []byte(register.VersionKey("n/_mopslock/", 7)), Stamp: worldStart}}},
		{Kind: core.EventAnswer, Request: 2, Outcome: core.OutcomeYes, Body: testValue(writer, 7, fullValue())},
	} {
		ev.Session, ev.SessionUntil = []byte("s"), int64(time.Minute)
		v.stepped(number, core.AppendInput(nil, core.Instant{Mono: int64(i + 1), Wall: worldStart}, &ev))
	}
	return v.end()
}

// bucketsVectors is each case as a vector, and what is refused.
func bucketsVectors(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	cfg := bucketsConfig()
	for _, c := range bucketsCases(t) {
		v := newVector(c.theorem, "testdata/buckets.txt")
		n := v.made(core.AppendConfig(nil, &cfg))
		for i, op := range c.ops(t) {
			v.stepped(n, core.AppendInput(nil, core.Instant{Mono: int64(i), Wall: worldStart}, &op.event))
		}
		files["buckets_"+c.name+".vec"] = v.end()
	}
	v := newVector("An event that buckets do not have is refused, and changes nothing; changed and woke only count.",
		"buckets_test.go")
	n := v.made(core.AppendConfig(nil, &cfg))
	step := func(ev core.Event) { v.stepped(n, core.AppendInput(nil, core.Instant{Mono: 5, Wall: worldStart}, &ev)) }
	step(core.Event{Kind: core.EventAcquire, Capacity: 3, Width: 2, Holder: []byte("h\u00e9")})
	events, _ := bucketsContract()
	for _, ev := range events {
		step(ev)
		step(core.Event{Kind: core.EventWoke})
	}
	step(core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes})
	step(core.Event{Kind: core.EventAcquire, Capacity: 1, Width: core.MaxWidth, Weight: core.MaxCounters + 1}) // more than are shown
	step(core.Event{Kind: core.EventChanged})
	files["buckets_refused_step.vec"] = v.end()
	return files
}

func refusedConfigs() []byte {
	v := newVector("A config that makes no machine is refused with all that is wrong with it.", "vector_test.go")
	good := core.Config{Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "n"}, Seed: [16]byte{1}}
	for _, change := range []func(*core.Config){
		func(*core.Config) {},
		func(c *core.Config) { *c = core.Config{} },
		func(c *core.Config) { c.Machine = core.MachineCompanion },
		func(c *core.Config) { c.Seed = [16]byte{} },
		func(c *core.Config) { c.TTL, c.Margin = 1, -5 },
		func(c *core.Config) { c.TTL, c.Margin, c.AcquireMargin, c.FleetExpire = -1, -2, -3, -4 },
		func(c *core.Config) { c.TTL, c.StampUnit = core.TTL(core.Second), core.CoarseStamp },
		func(c *core.Config) { c.TTL, c.FleetExpire = core.TTL(core.MaxTTL+1), core.TTL(core.MaxTTL+1) },
		func(c *core.Config) {
			c.TTL, c.Margin, c.AcquireMargin = core.TTL(core.Minute), 30*core.Second, 30*core.Second+1
		},
		func(c *core.Config) { c.TTL, c.Margin = core.TTL(core.Minute), 1500*core.Microsecond },
		func(c *core.Config) { c.Name = "a//b" },
		func(c *core.Config) { c.Name = "a/../b" },
		func(c *core.Config) { c.Name = "_mopslock" },
		func(c *core.Config) { c.Name = strings.Repeat("x", core.MaxName+1) },
		func(c *core.Config) { c.Name = "tab\there\x7f\u0085" },
		func(c *core.Config) {
			c.Host, c.PID = strings.Repeat("h", core.MaxText+1), strings.Repeat("1", core.MaxText+1)
		},
		func(c *core.Config) { c.Holder = core.HolderID(strings.Repeat("h", core.MaxHolder+1)) },
	} {
		c := good
		change(&c)
		v.made(core.AppendConfig(nil, &c))
	}
	return v.end()
}

func refusedSteps() []byte {
	v := newVector("A step that breaks the contract is refused, and the machine goes on as if it had not been.", "vector_test.go")
	companion := core.AppendConfig(nil, &core.Config{
		Machine: core.MachineCompanion, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "n", Holder: "h"}, Seed: [16]byte{2},
	})
	for _, config := range [][]byte{leaseConfig(), companion} {
		n := v.made(config)
		step := func(mono int64, ev core.Event) {
			v.stepped(n, core.AppendInput(nil, core.Instant{Mono: mono, Wall: 0}, &ev))
		}
		step(5, core.Event{Kind: core.EventLimit, Permit: 1})
		step(5, core.Event{Kind: core.EventDown, Holder: []byte("h")})
		for kind := core.EventAcquire; kind <= core.EventWoke; kind++ {
			if kind != core.EventAnswer && kind != core.EventAcquire && kind != core.EventAccompany {
				step(5, core.Event{Kind: kind})
			}
		}
		step(5, core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes})
		step(5, core.Event{Kind: core.EventAcquire, Wait: -2})
		step(5, core.Event{Kind: core.EventAcquire, Wait: core.MaxWait + 1})
		step(6, core.Event{Kind: core.EventAcquire})
		step(6, core.Event{Kind: core.EventAccompany})
		step(5, core.Event{Kind: core.EventWoke})
		step(core.MaxClockRange+1, core.Event{Kind: core.EventWoke})
		v.stepped(n, core.AppendInput(nil, core.Instant{Mono: 7, Wall: core.MaxClockRange + 1}, &core.Event{Kind: core.EventWoke}))
		step(6, core.Event{Kind: core.EventAnswer, Request: 7, Outcome: core.OutcomeNo})
		step(6, core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeNo, Stamp: core.MaxClockRange + 1})
		step(6, core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeNo})
		step(6, core.Event{Kind: core.EventAnswer, Request: 2, Outcome: core.OutcomeNo})
	}
	return v.end()
}

// TestVectors: the files are what the core says now.
func TestVectors(t *testing.T) {
	files := vectors(t)
	for name, want := range files {
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join(vectorDir, name), want) })
	}
	committed, err := filepath.Glob(filepath.Join(vectorDir, "*.vec"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range committed {
		if files[filepath.Base(path)] == nil {
			t.Errorf("%s comes from nowhere: remove it", path)
		}
	}
}

// TestVectorsCover: every kind of message is in them, and every rule and code by
// which one is refused. Rules of answers alone no engine can break: it does not
// read them.
func TestVectorsCover(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range vectors(t) {
		lines := bufio.NewScanner(bytes.NewReader(file))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			noteLine(seen, lines.Text())
		}
	}
	var want []string
	for n := range uint8(64) {
		want = append(want, "event "+core.EventKind(n).String(), "action "+core.ActionKind(n).String(), "error "+core.ErrorCode(n).String(),
			"machine "+core.MachineKind(n).String(), "outcome "+core.Outcome(n).String(), "state "+core.LeaseState(n).String(),
			"state "+core.CompanionState(n).String(), "state "+core.SessionState(n).String(), "state "+core.TaskState(n).String(),
			"state "+core.BucketsState(n).String(), "state "+core.SemaphoreState(n).String(), "reason "+core.Reason(n).String())
	}
	malformedLines(t, func(sort string, _ []byte, rule string) {
		if sort == "config" || sort == "input" {
			want = append(want, "rule "+rule)
		}
	})
	never := []string{"error handle", "reason none"}
	for _, what := range want {
		if !seen[what] && !strings.Contains(what, "(") && !slices.Contains(never, what) {
			t.Errorf("no vector has %s", what)
		}
	}
}

// noteLine notes what one line of a vector shows.
func noteLine(seen map[string]bool, text string) {
	verb, rest, _ := strings.Cut(text, " ")
	if verb != "answer" {
		_, rest, _ = strings.Cut(rest, " ")
	}
	message, _ := hex.DecodeString(rest)
	var c core.Config
	var now core.Instant
	var ev core.Event
	var a core.Answer
	switch {
	case verb == "new" && core.DecodeConfig(message, &c) == nil:
		seen["machine "+c.Machine.String()] = true
	case verb == "step" && core.DecodeInput(message, &now, &ev) == nil:
		seen["event "+ev.Kind.String()] = true
		seen["outcome "+ev.Outcome.String()] = true
	case verb == "answer" && core.DecodeAnswer(message, new(core.AnswerBuffer), &a) == nil:
		seen["state "+a.State] = true
		for _, action := range a.Actions {
			seen["action "+action.Kind.String()] = true
			seen["reason "+action.Reason.String()] = true
		}
		if e := new(core.Error); errors.As(a.Err, &e) {
			seen["error "+e.Code.String()] = true
			if rule, _, ok := strings.Cut(strings.TrimPrefix(e.Text, "message: "), " (at byte"); ok {
				seen["rule "+rule] = true
			}
		}
	}
}
