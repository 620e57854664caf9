package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/doctor"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/capability"
	"github.com/mopslock/mopslock/host/store/local"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// On a store without a fault the doctor advises strict. Every count is exact, and only a
// capability record that does not refuse the store is left.
func TestGoodStore(t *testing.T) {
	steps := map[string]int{}
	opts := &doctor.Options{Tries: 20, Progress: func(step string, _, _ int) { steps[step]++ }}
	examine(t, opts, nil, func(e *examined) {
		e.says("strict")
		c, asked := e.Create, e.p.Requests()
		if want := (doctor.Create{Rounds: 50, Writers: 16, MostWinners: 1, Over: 20}); c != want {
			e.Errorf("%+v", c)
		}
		if want := (doctor.Fresh{
			AfterWrite: doctor.Checked{Tries: 20}, AfterDelete: doctor.Checked{Tries: 20},
			AfterOverwrite: doctor.Checked{Tries: 20}, Exists: doctor.Checked{Tries: 40},
		}); e.Fresh != want {
			e.Errorf("%+v", e.Fresh)
		}
		for _, v := range e.Verbs {
			if times := strings.Count(asked, v.Verb); v.P50 != doctor.Milliseconds(latency) || v.P99 != doctor.Milliseconds(latency) || v.Answered != times {
				e.Errorf("%+v of %d", v, times)
			}
		}
		if v := e.Verbs[2]; v.Verb != "create" || v.Timed != 21 { // 20 tries, and the capability record
			e.Errorf("%+v", v)
		}
		if len(e.Verbs) != 6 || len(e.keys()) != 0 || e.capability() != (capability.Record{Nonce: e.capability().Nonce}) || e.capability().Nonce == "" {
			e.Errorf("%v, left %q, card %+v", e.Verbs, e.keys(), e.capability())
		}
		if time.Duration(e.Clock.Offset).Abs() > latency || e.Clock.Bound > doctor.Seconds(latency) || e.Stamps.Spread != 0 || e.Stamps.Unit != 1 {
			e.Errorf("%+v %+v", e.Clock, e.Stamps)
		}
		a := e.Advice
		if a.Command != "mopslock-host run --protocol strict --ttl 60s --margin 6s NAME -- CMD" || a.TTLFloor != doctor.Seconds(200*time.Millisecond) ||
			a.Handover != doctor.Seconds(6030*time.Millisecond) || a.TakeOver != doctor.Seconds(67030*time.Millisecond+1) {
			e.Errorf("%+v", a)
		}
		if want := (doctor.Cost{Puts: 216, Gets: 216, USD: 0.001166, Thousand: 0.001166, Polls: 1440, PollsUSD: 0.000576}); a.Cost != want {
			e.Errorf("%+v", a.Cost)
		}
		if steps["race"] != 50 || steps["create and list"] != 20 {
			e.Errorf("%v", steps)
		}
	})
}

// ignore makes each create a put, as rclone's S3 server does.
func ignore(p *patient) {
	p.create = func(key string, body []byte) error { return p.Store.Put(context.Background(), key, body, "") }
}

// A store that takes every create for a put has 16 winners of 16. The capability record refuses it for
// all later processes, until a doctor finds it mended.
func TestTwoWinners(t *testing.T) {
	examine(t, &doctor.Options{Rounds: 10}, ignore, func(e *examined) {
		e.says("lastwriter", "two_winners")
		if c := e.Create; c.MostWinners != 16 || c.Doubled != 10 || c.Rounds != 10 || c.Overwrote != c.Over || c.Over != 40 {
			e.Errorf("%+v", c)
		}
		const why = "16 of 16 writers were told they won, in 10 of 10 rounds"
		if c := e.capability(); !c.Refused || c.Why != why || !e.Capability.Refused || !strings.Contains(e.Findings[0].Text, why) {
			e.Errorf("%+v, %+v", c, e.Findings)
		}
		if a := e.Advice; a.Command != "mopslock-host run --protocol lastwriter --ttl 88s --margin 8.8s --acquire-margin 100ms NAME -- CMD" || a.Handover != doctor.Seconds(6140*time.Millisecond) {
			e.Errorf("%+v", a)
		}
		e.p.create = nil
		nonce := e.capability().Nonce // by which processes know a directory
		mended, err := doctor.Examine(e.Context(), e.p, nil)
		if e.Report, e.err = mended, err; err != nil || !mended.Capability.Mended || mended.Capability.Refused || e.capability().Refused || e.capability().Nonce != nonce {
			e.Errorf("%+v, %v", mended.Capability, err)
		}
		e.says("strict", "mended")
	})
}

// A race of creates shows the store's faults. A store that looks and then writes answers
// single creates correctly, but has two winners if many come at once. One of two winners
// may be told that it has lost, or nothing: the object then shows that it won. If a proxy
// sends every create twice, no writer is told that it has won; that, and lost answers, are
// no fault of the store. A round in which only one writer is answered is no race.
func TestRaces(t *testing.T) {
	exists := store.Fail("create", "k", core.ClassNone, store.ErrExists)
	lost := store.Fail("create", "k", core.ClassUnreachable, errors.New("reset"))
	hidden := func(told error) func(*patient, string, int, []byte) error {
		return func(p *patient, key string, nth int, body []byte) error {
			if nth == 1 {
				return p.Store.Put(context.Background(), key, body, "")
			}
			if nth == doctor.Writers {
				time.Sleep(time.Millisecond)
				_ = p.Store.Put(context.Background(), key, body, "")
				return told
			}
			return exists
		}
	}
	first := func(told error) func(*patient, string, int, []byte) error {
		return func(p *patient, key string, _ int, body []byte) error {
			if p.Store.Create(context.Background(), key, body, "") == nil {
				return told
			}
			return exists
		}
	}
	for name, test := range map[string]struct {
		create   func(p *patient, key string, nth int, body []byte) error
		protocol string
		kinds    []string
		want     func(doctor.Create) bool
	}{
		"looks, then writes": {func(p *patient, key string, _ int, body []byte) error {
			there, err := p.Store.Exists(context.Background(), key)
			if there || err != nil {
				return errors.Join(err, exists)
			}
			time.Sleep(time.Millisecond)
			return p.Store.Put(context.Background(), key, body, "")
		}, "lastwriter", []string{"two_winners"}, func(c doctor.Create) bool { return c.Overwrote == 0 && c.Doubled == 50 }},
		"a winner told that it exists": {hidden(exists), "lastwriter", []string{"two_winners"}, func(c doctor.Create) bool { return c.Doubled == 50 && c.MostWinners == 2 }},
		"a winner told nothing":        {hidden(lost), "lastwriter", []string{"two_winners", "unknown"}, func(c doctor.Create) bool { return c.Doubled == 50 && c.MostWinners == 2 }},
		"sent twice":                   {first(exists), "strict", []string{"lost_answers"}, func(c doctor.Create) bool { return c.Doubled == 0 && c.Lost == 50 && c.Rounds == 50 }},
		"answers lost":                 {first(lost), "strict", []string{"lost_answers", "unknown"}, func(c doctor.Create) bool { return c.Doubled == 0 && c.Lost == 50 && c.Rounds == 50 }},
		"unsupported": {func(*patient, string, int, []byte) error {
			return store.Fail("create", "k", core.ClassOther, errors.ErrUnsupported)
		}, "lastwriter", []string{"create_unsupported", "unknown"}, func(c doctor.Create) bool { return c.Doubled == 0 }},
		"answered alone": {func(p *patient, key string, nth int, body []byte) error {
			if nth > 1 && strings.Contains(key, "/r/") {
				return store.Fail("create", "k", core.ClassThrottled, errors.New("SlowDown"))
			}
			return p.Store.Create(context.Background(), key, body, "")
		}, "none", nil, func(c doctor.Create) bool { return c.Rounds == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			times := map[string]int{}
			examine(t, nil, func(p *patient) {
				p.create = func(key string, body []byte) error {
					mu.Lock()
					times[key]++
					nth := times[key]
					mu.Unlock()
					return test.create(p, key, nth, body)
				}
			}, func(e *examined) {
				e.says(test.protocol, test.kinds...)
				if refused := slices.Contains(test.kinds, "two_winners"); !test.want(e.Create) || len(e.keys()) != 0 || e.capability().Refused != refused {
					e.Errorf("%+v, left %q, %+v", e.Create, e.keys(), e.capability())
				}
				if unknown := test.protocol == "none"; unknown && (e.err == nil || !strings.Contains(e.err.Error(), "nobody knows") || e.capability() != (capability.Record{})) {
					e.Errorf("%v, %+v", e.err, e.capability())
				}
			})
		})
	}
}

// Lists, reads and exists that lag are counted, and the doctor does not advise strict.
func TestStaleStores(t *testing.T) {
	var before []store.Info
	old := map[string]store.Object{}
	for name, test := range map[string]struct {
		tell  func(*storetest.Call, error)
		kinds []string
		fresh doctor.Fresh
	}{
		"list": {func(c *storetest.Call, _ error) {
			if c.Verb == "list" {
				before, c.Page = slices.Clone(c.Page), before
			}
		}, []string{"stale_list", "stale_list"}, doctor.Fresh{AfterWrite: doctor.Checked{Tries: 40, Stale: 40}}},
		"read": {func(c *storetest.Call, err error) {
			first, ok := old[c.Key]
			switch {
			case c.Verb == "create" && err == nil:
				old[c.Key] = store.Object{Body: c.Body}
			case c.Verb == "get" && ok:
				c.Object = first
			}
		}, []string{"stale_read"}, doctor.Fresh{AfterOverwrite: doctor.Checked{Tries: 40, Stale: 40}}},
		"there":     {func(c *storetest.Call, _ error) { c.There = true }, []string{"stale_read"}, doctor.Fresh{Exists: doctor.Checked{Tries: 80, Stale: 40}}},
		"not there": {func(c *storetest.Call, _ error) { c.There = false }, []string{"stale_read"}, doctor.Fresh{Exists: doctor.Checked{Tries: 80, Stale: 40}}},
	} {
		t.Run(name, func(t *testing.T) {
			examine(t, nil, func(p *patient) { p.tell = test.tell }, func(e *examined) {
				e.says("lastwriter", test.kinds...)
				for _, pair := range [][2]doctor.Checked{
					{e.Fresh.AfterWrite, test.fresh.AfterWrite}, {e.Fresh.AfterOverwrite, test.fresh.AfterOverwrite}, {e.Fresh.Exists, test.fresh.Exists},
				} {
					if pair[1].Tries > 0 && pair[0] != pair[1] || pair[1].Tries == 0 && pair[0].Stale != 0 {
						e.Errorf("%+v", e.Fresh)
					}
				}
				if e.capability().Refused {
					e.Error("the card refuses a store whose create-if-absent has no fault")
				}
			})
		})
	}
}

// However slow the store is, each verb is tried eight times.
func TestSlowStore(t *testing.T) {
	slow := func(p *patient) { p.deny = func(string, string) error { time.Sleep(time.Second); return nil } }
	examine(t, nil, slow, func(e *examined) {
		if f := e.Fresh; f.AfterWrite.Tries != 8 || f.AfterOverwrite.Tries != 8 || f.AfterDelete.Tries != 8 || len(e.keys()) != 0 {
			e.Errorf("%+v, left %q", f, e.keys())
		}
	})
}

// A capability record that cannot be written is a finding: other processes do not learn of a refusal, or
// are still refused.
func TestCardUnwritten(t *testing.T) {
	locked := denies("put", capability.Key, core.ClassOther)
	examine(t, nil, func(p *patient) { ignore(p); locked(p) }, func(e *examined) {
		e.says("lastwriter", "two_winners", "card_unwritten", "unknown")
	})
	examine(t, nil, func(p *patient) {
		p.plant(capability.Record{Nonce: "n", Refused: true, Why: "seen"})
		locked(p)
	}, func(e *examined) {
		if e.says("lastwriter", "card_unwritten", "unknown"); !e.Capability.Refused || e.Capability.Mended || e.Capability.Seen != "seen" {
			e.Errorf("%+v", e.Capability)
		}
	})
}

// The report gives the unit and the spread of the stamps, and the margin makes up for them.
func TestStamps(t *testing.T) {
	for name, test := range map[string]struct {
		stamp         func(key string, stamp int64) int64
		kinds         []string
		floor, margin time.Duration
		offset        time.Duration
		spread        time.Duration
	}{
		"none":              {func(string, int64) int64 { return 0 }, []string{"no_stamps"}, 200 * time.Millisecond, 6 * time.Second, 0, 0},
		"of whole seconds":  {func(_ string, s int64) int64 { return s - s%1e9 }, []string{"coarse_stamps"}, 5 * time.Second, 6 * time.Second, 0, 0},
		"an hour ahead":     {func(_ string, s int64) int64 { return s + 3600e9 }, []string{"clock_offset"}, 200 * time.Millisecond, 6 * time.Second, time.Hour, 0},
		"doors apart":       {doors(9 * time.Second), []string{"clocks_disagree"}, 200 * time.Millisecond, 12 * time.Second, 4500 * time.Millisecond, 9 * time.Second},
		"doors a bit apart": {doors(500 * time.Millisecond), nil, 200 * time.Millisecond, 6 * time.Second, 250 * time.Millisecond, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			examine(t, nil, func(p *patient) { p.stamp = test.stamp }, func(e *examined) {
				e.says("strict", test.kinds...)
				if bad := slices.ContainsFunc(e.Findings, func(f doctor.Finding) bool { return f.Bad }); bad != (name == "of whole seconds" || name == "doors apart") {
					t.Errorf("%+v", e.Findings)
				}
				near := func(what string, got doctor.Seconds, want time.Duration) {
					if (time.Duration(got) - want).Abs() > time.Duration(e.Clock.Bound)+2*latency {
						t.Errorf("%s %v, want %v", what, time.Duration(got), want)
					}
				}
				near("offset", e.Clock.Offset, test.offset)
				near("spread", e.Stamps.Spread, test.spread)
				if a := e.Advice; a.TTLFloor != doctor.Seconds(test.floor) || a.Margin != doctor.Seconds(test.margin) {
					t.Errorf("floor %v, margin %v", time.Duration(a.TTLFloor), time.Duration(a.Margin))
				}
			})
		})
	}
}

// doors returns the stamps of two front ends whose clocks differ. Each has half of the keys.
func doors(apart time.Duration) func(string, int64) int64 {
	return func(key string, stamp int64) int64 {
		if key[len(key)-1]%2 == 0 {
			stamp += int64(apart)
		}
		return stamp
	}
}

// Each missing right is a finding. Without the rights to write and to read no lease can be
// kept, and the error is the store's own. The same holds without the right to overwrite.
func TestRights(t *testing.T) {
	readOnly := func(p *patient) {
		p.deny = func(asked, key string) error {
			if asked == "put" || asked == "create" || asked == "delete" {
				return store.Fail(asked, key, core.ClassReadOnly, errors.New("denied"))
			}
			return nil
		}
	}
	no := func(verb, part string) func(*patient) { return denies(verb, part, core.ClassUnauthorized) }
	for name, test := range map[string]struct {
		change   func(*patient)
		protocol string
		kinds    []string
		class    core.Class // of an error
	}{
		"put":       {no("put", ""), "none", []string{"no_put_right"}, core.ClassUnauthorized},
		"get":       {no("get", ""), "none", []string{"no_get_right"}, core.ClassUnauthorized},
		"overwrite": {no("put", "/l/"), "none", []string{"no_put_right"}, core.ClassUnauthorized},
		"create":    {no("create", ""), "lastwriter", []string{"no_create_right"}, core.ClassNone},
		"list":      {no("list", ""), "lastwriter", []string{"no_list_right"}, core.ClassNone},
		"exists":    {no("exists", ""), "lastwriter", []string{"no_exists_right"}, core.ClassNone},
		"delete":    {no("delete", ""), "strict", []string{"no_delete_right", "left_behind"}, core.ClassNone},
		"write":     {readOnly, "none", []string{"read_only"}, core.ClassReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			examine(t, nil, test.change, func(e *examined) {
				e.says(test.protocol, test.kinds...)
				if classOf(e.err) != test.class || (e.Advice == nil) != (e.err != nil) || e.took > 12*time.Second {
					e.Errorf("%v, %+v after %v", e.err, e.Advice, e.took)
				}
				if name != "delete" && len(e.keys()) != 0 {
					e.Errorf("left %q", e.keys())
				}
			})
		})
	}
}

// The doctor asks again if a verb is denied between answers, such as while a token is
// renewed, and if all creates of a race are denied.
func TestDeniedForAMoment(t *testing.T) {
	for _, test := range []struct {
		verb     string
		from, to int
	}{{"put", 20, 20}, {"get", 20, 20}, {"create", 20, 20}, {"create", 50, 50}, {"create", 81, 96}, {"exists", 20, 20}, {"list", 20, 20}, {"delete", 20, 20}} {
		var mu sync.Mutex
		n := 0
		examine(t, nil, func(p *patient) {
			p.deny = func(verb, key string) error {
				mu.Lock()
				defer mu.Unlock()
				if verb != test.verb {
					return nil
				}
				if n++; n < test.from || n > test.to {
					return nil
				}
				return store.Fail(verb, key, core.ClassUnauthorized, errors.New("ExpiredToken"))
			}
		}, func(e *examined) {
			i := slices.IndexFunc(e.Verbs, func(v doctor.Verb) bool { return v.Verb == test.verb })
			if e.says("strict", "unknown"); e.Verbs[i].Unknown != test.to-test.from+1 || e.Create.Rounds != 50 || len(e.keys()) != 0 {
				e.Errorf("%+v: %+v, %+v, left %q", test, e.Verbs[i], e.Create, e.keys())
			}
		})
	}
}

func classOf(err error) core.Class {
	e, ok := errors.AsType[*store.Error](err)
	if !ok {
		return core.ClassNone
	}
	return e.Class
}

// A store that cannot be used is told at once, one that does not answer within 5 s,
// even where no cancel is obeyed.
func TestUnreachable(t *testing.T) {
	for name, test := range map[string]struct {
		class core.Class
		deaf  bool
		most  time.Duration
	}{
		"missing":     {core.ClassNoSuchStore, false, latency},
		"full":        {core.ClassFull, false, latency},
		"unreachable": {core.ClassUnreachable, false, 6 * time.Second},
		"throttled":   {core.ClassThrottled, false, 6 * time.Second},
		"deaf":        {core.ClassUnreachable, true, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			examine(t, nil, func(p *patient) {
				if test.deaf {
					p.deaf = make(chan struct{})
				}
				p.deny = func(verb, key string) error { return store.Fail(verb, key, test.class, errors.New("no")) }
			}, func(e *examined) {
				e.says("none")
				if classOf(e.err) != test.class || e.took > test.most || e.Reached != 0 {
					e.Errorf("%v after %v, reached %v", e.err, e.took, e.Reached)
				}
			})
		})
	}
}

// The doctor also examines a store that throttles a fifth of all requests.
func TestThrottled(t *testing.T) {
	var mu sync.Mutex
	n := 0
	examine(t, nil, func(p *patient) {
		p.deny = func(verb, key string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%5 == 0 {
				return store.Fail(verb, key, core.ClassThrottled, errors.New("SlowDown"))
			}
			return nil
		}
	}, func(e *examined) {
		e.says("strict", "throttled")
		if len(e.keys()) > 5 || e.Create.Rounds < 10 {
			e.Errorf("%q %+v", e.keys(), e.Create)
		}
	})
}

// A capability record that cannot be read may refuse the store, so the doctor does not advise strict.
func TestCardUnread(t *testing.T) {
	for _, class := range []core.Class{core.ClassUnauthorized, core.ClassUnreachable, core.ClassThrottled} {
		examine(t, nil, func(p *patient) {
			p.plant(capability.Record{Nonce: "x", Refused: true, Why: "seen"})
			denies("get", capability.Key, class)(p)
		}, func(e *examined) {
			if e.Protocol != "none" || classOf(e.err) != class || !e.capability().Refused || len(e.keys()) != 0 {
				e.Errorf("%v: %s, %v, %+v, left %q", class, e.Protocol, e.err, e.capability(), e.keys())
			}
		})
	}
}

// The doctor gives up a store that falls silent in the middle.
func TestFallsSilent(t *testing.T) {
	examine(t, nil, func(p *patient) { p.silentFrom = time.Now().Add(time.Second) }, func(e *examined) {
		if e.says("none", "left_behind"); classOf(e.err) != core.ClassUnreachable || e.took > 35*time.Second {
			e.Errorf("%v after %v", e.err, e.took)
		}
	})
}

// A caller that cancels gets its cause at once, and nothing is left behind.
func TestCancelled(t *testing.T) {
	cause := errors.New("enough")
	for _, step := range []string{"create and list", "create over an object", "overwrite and read", "delete and list", "race", "stamps", "card"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPatient()
			defer p.Store.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err := doctor.Examine(ctx, p, &doctor.Options{Progress: func(at string, _, _ int) {
				if at == step {
					cancel(cause)
				}
			}})
			e := &examined{T: t, p: p}
			if !errors.Is(err, cause) || len(e.keys()) != 0 {
				t.Errorf("%s: %v, %q", step, err, e.keys())
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for _, bad := range []*doctor.Options{{Rounds: -1}, {Tries: -1}, {Rounds: doctor.MaxRounds + 1}, {Tries: doctor.MaxTries + 1}} {
		if report, err := doctor.Examine(t.Context(), nil, bad); err == nil || report != nil {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A local directory is a good store, with file events.
func TestDirectory(t *testing.T) {
	s, err := store.Open(t.Context(), (&store.Location{Scheme: "file", Dir: t.TempDir()}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := store.Unguarded(s).(*local.Store); !ok {
		t.Fatal("no directory")
	}
	r, err := doctor.Examine(t.Context(), s, &doctor.Options{Rounds: 20, Tries: 10})
	if err != nil || !r.Strict() || len(r.Findings) != 0 || !r.Advice.Watched || r.Create.Rounds != 20 {
		t.Errorf("%+v %v", r, err)
	}
}

// The JSON of a report has the units in its keys.
func TestJSON(t *testing.T) {
	body, err := json.Marshal(&doctor.Report{
		Reached: doctor.Milliseconds(1500 * time.Microsecond), Stamps: doctor.Stamps{Unit: doctor.Seconds(time.Second), Spread: doctor.Seconds(1234567)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"reached_ms":1.5,`, `"unit_s":1,`, `"spread_s":0.001234567`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}
