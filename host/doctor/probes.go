package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/capability"
)

// live creates, overwrites and deletes objects, one after the other. Each time it checks
// whether the store shows the write to which it has just said yes:
//
//	create k ── list: k there?          create k again ── "it exists"?
//	put k ───── get: the new one?       exists: yes?
//	delete k ── list: k gone?           exists: no?
//
// There is a round of all keys between two writes of one key, since some stores take
// only one write a second of an object.
func (x *examiner) live() error {
	keys, err := x.birth()
	if err != nil {
		return err
	}
	for i, key := range keys {
		x.progress("create over an object", i, len(keys))
		if !x.creates() {
			break
		}
		switch err := x.create(key, fresh()); {
		case err == nil:
			x.report.Create.Over++
			x.report.Create.Overwrote++
		case errors.Is(err, store.ErrExists):
			x.report.Create.Over++
		}
	}
	if err := x.renewal(keys); err != nil {
		return err
	}
	x.death(keys)
	return nil
}

// birth creates as many keys as it has time for, and lists after each.
func (x *examiner) birth() (keys []string, err error) {
	begun := time.Now()
	for i := range x.opts.Tries {
		if i >= leastTries && time.Since(begun) > phaseLimit || x.ctx.Err() != nil {
			break
		}
		x.progress("create and list", i, x.opts.Tries)
		key := fmt.Sprintf("%sl/%04d", x.prefix, i)
		switch err := x.create(key, fresh()); {
		case errors.Is(err, errors.ErrUnsupported):
			x.report.Create.Unsupported = true
			fallthrough
		case err != nil && !errors.Is(err, store.ErrExists): // ErrExists: it is our own object, since a proxy sent the request twice
			if err := x.put(key, fresh()); err != nil && !passing(err) { // later steps need the key
				return keys, err
			} else if err != nil {
				continue
			}
		}
		keys = append(keys, key)
		x.mustList(key, true, &x.report.Fresh.AfterWrite)
	}
	return keys, nil
}

// mustList lists, and counts whether the key is shown if it is there, and not shown if not.
func (x *examiner) mustList(key string, there bool, seen *Checked) {
	if x.denied("list") != nil {
		return
	}
	if found, err := x.list(x.prefix + "l/"); err == nil {
		_, shown := found[key]
		seen.add(shown == there)
	}
}

// creates reports whether a create is worth a request.
func (x *examiner) creates() bool { return !x.report.Create.Unsupported && x.denied("create") == nil }

// renewal overwrites every key and reads it back. Some services have a separate right to
// overwrite. Without it no lease can be renewed, so renewal returns an error.
func (x *examiner) renewal(keys []string) error {
	begun := time.Now()
	for i, key := range keys {
		if i >= leastTries && time.Since(begun) > phaseLimit || x.ctx.Err() != nil {
			break
		}
		x.progress("overwrite and read", i, len(keys))
		body := fresh()
		taken := sample{key: key, sent: x.now()}
		switch err := x.put(key, body); {
		case err != nil && !passing(err):
			return err
		case err != nil:
			continue
		}
		taken.done = x.now()
		object, err := x.get(key)
		if err == nil || errors.Is(err, store.ErrAbsent) {
			same := bytes.Equal(object.Body, body)
			x.report.Fresh.AfterOverwrite.add(same)
			if same {
				taken.get = object.Stamp
				x.stamps = append(x.stamps, taken)
			}
		}
		if there, err := x.exists(key); err == nil {
			x.report.Fresh.Exists.add(there)
		}
	}
	return nil
}

// death deletes every key, and checks whether it is gone.
func (x *examiner) death(keys []string) {
	begun := time.Now()
	x.listStamps("l/")
	for i, key := range keys {
		if i >= leastTries && time.Since(begun) > phaseLimit || x.ctx.Err() != nil || x.denied("delete") != nil {
			break
		}
		x.progress("delete and list", i, len(keys))
		if x.remove(key) != nil {
			continue
		}
		x.mustList(key, false, &x.report.Fresh.AfterDelete)
		if there, err := x.exists(key); err == nil {
			x.report.Fresh.Exists.add(!there)
		}
	}
}

// race lets Writers create one key at once, many times, and counts the writers that were
// told yes. A writer without an answer is no winner. But if the object is not that of the
// only writer that was told yes, another writer has also won.
//
//	A   create ── looks: none ─────────── writes ── yes
//	B         create ── looks: none ── writes ── yes          <- two winners
//	C   create ── writes ── (answer lost, sent again) ── exists; and C's is there <- one
func (x *examiner) race() error {
	c := &x.report.Create
	c.Writers = Writers
	if !x.creates() {
		return nil
	}
	rounds, begun := x.opts.Rounds, time.Now()
	if rounds == 0 {
		rounds = DefaultRounds
	}
	for round := range rounds {
		late := x.opts.Rounds == 0 && round >= leastRounds && time.Since(begun) > raceLimit
		if late || x.ctx.Err() != nil {
			break
		}
		x.progress("race", round, rounds)
		x.round(fmt.Sprintf("%sr/%06d", x.prefix, round))
	}
	if c.Rounds == 0 && x.ctx.Err() == nil {
		return store.Fail("create", x.prefix+"r/", core.ClassUnreachable,
			errors.New("in no round of the race two were answered, so nobody knows whether create-if-absent is honoured"))
	}
	return nil
}

// round runs one race.
func (x *examiner) round(key string) {
	bodies := make([][]byte, Writers)
	errs := make([]error, Writers)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range Writers {
		bodies[i] = fresh()
		all.Go(func() {
			<-start
			errs[i] = x.create(key, bodies[i])
		})
	}
	x.crowd(true)
	close(start)
	all.Wait()
	x.crowd(false)
	winners, exists, winner := 0, 0, -1
	for i, err := range errs {
		switch {
		case err == nil:
			winners, winner = winners+1, i
		case errors.Is(err, store.ErrExists):
			exists++
		}
	}
	c := &x.report.Create
	c.Unknown += Writers - winners - exists
	object, err := x.get(key)
	switch {
	case err == nil && winners == 1 && !bytes.Equal(object.Body, bodies[winner]):
		winners++ // its answer was lost, or it was told that the object exists
	case err == nil && winners == 0 && exists > 1:
		c.Lost++
	}
	if winners+exists > 1 { // a writer that alone was answered had no race
		c.Rounds++
	} else {
		sleep(x.ctx, backOff) // the store is throttling, or out of reach
	}
	if c.MostWinners = max(c.MostWinners, winners); winners > 1 {
		c.Doubled++
	}
	if x.denied("delete") == nil {
		_ = x.remove(key)
	}
}

// burstPause is the pause before each burst.
const burstPause = 300 * time.Millisecond

// burst puts Writers objects at once, twice, so that they go through as many front ends
// as possible.
func (x *examiner) burst() error {
	x.crowd(true)
	defer x.crowd(false)
	var all sync.WaitGroup
	const bursts = 2
	for burst := range bursts {
		x.progress("stamps", burst, bursts)
		sleep(x.ctx, burstPause) // otherwise stamps could be whole seconds by chance
		for i := range Writers {
			all.Go(func() {
				taken := sample{key: fmt.Sprintf("%sb/%02d", x.prefix, burst*Writers+i), sent: x.now()}
				if x.put(taken.key, fresh()) != nil {
					return
				}
				taken.done = x.now()
				x.mu.Lock()
				defer x.mu.Unlock()
				x.stamps = append(x.stamps, taken)
			})
		}
		all.Wait()
	}
	x.listStamps("b/")
	return nil
}

// listStamps lists a prefix, and adds the stamps to the samples below it.
func (x *examiner) listStamps(below string) {
	if x.denied("list") != nil {
		return
	}
	found, err := x.list(x.prefix + below)
	if err != nil {
		return
	}
	for i := range x.stamps {
		if stamp, ok := found[x.stamps[i].key]; ok {
			x.stamps[i].list = stamp
		}
	}
}

// now returns this machine's wall clock, in nanoseconds since 1970. It ignores any setting
// of that clock since the examination began.
func (x *examiner) now() int64 { return x.begun.UnixNano() + int64(time.Since(x.begun)) }

// writeCapability writes what was seen into the store's capability record. It always writes
// a refusal. It replaces a record that refuses the store if the store is mended. If the
// record cannot be read, that is an error: it may refuse the store, and a host that cannot read it
// keeps no strict lease.
func (x *examiner) writeCapability() error {
	x.progress("card", 0, 1)
	c := &x.report.Create
	if !x.creates() { // each process learns this by itself when it creates
		return nil
	}
	object, err := x.get(capability.Key)
	there, _ := capability.Parse(object.Body)
	x.report.Capability.Refused = there.Refused
	x.report.Capability.Seen = there.Seen()
	// One that replaces a record has its nonce, by which processes know a directory.
	ours := capability.Record{Nonce: cmp.Or(there.Nonce, uuid.NewString()), Refused: c.Doubled > 0 || c.Overwrote > 0, Why: c.text(), At: time.Now()}
	switch {
	case ours.Refused, err == nil && there.Refused:
		_, err = insist(x.ctx, x, "put", capability.Key, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, x.store.Put(ctx, capability.Key, ours.Body(), capability.Type)
		})
	case errors.Is(err, store.ErrAbsent): // a record that another process creates first says the same, or more
		_, _ = ask(x.ctx, x, "create", capability.Key, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, x.store.Create(ctx, capability.Key, ours.Body(), capability.Type)
		})
		return nil
	case err != nil && x.ctx.Err() == nil:
		return err // the record may refuse the store
	default:
		return nil
	}
	if err == nil {
		x.report.Capability.Mended = there.Refused && !ours.Refused
		x.report.Capability.Refused, x.report.Capability.Seen = ours.Refused, ours.Seen()
	}
	return nil // the report says whether the capability record was written
}
