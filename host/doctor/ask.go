package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// answer is the result of a request.
type answer[T any] struct {
	value T
	err   error
	took  time.Duration
}

// stopGrace is how long a cancelled request may take to end.
const stopGrace = time.Second

// ask does one request, times it, and counts what became of it. One that obeys no
// cancel, such as a system call on a dead mount, is left behind; it ends when that does.
func ask[T any](ctx context.Context, x *examiner, verb, key string, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answered := make(chan answer[T], 1)
	go func() {
		begun := time.Now()
		value, err := do(ctx)
		answered <- answer[T]{value, err, time.Since(begun)}
	}()
	var a answer[T]
	select {
	case a = <-answered:
	case <-ctx.Done():
		timer := time.NewTimer(stopGrace)
		defer timer.Stop()
		select {
		case a = <-answered:
		case <-timer.C:
			a.err = store.Fail(verb, key, core.ClassUnreachable, ctx.Err())
		}
	}
	x.count(verb, a.took, a.err)
	return a.value, a.err
}

func (x *examiner) count(verb string, took time.Duration, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.tallyOf(verb)
	e, _ := errors.AsType[*store.Error](err)
	if !errors.Is(err, context.Canceled) && (e == nil || e.Class != core.ClassUnreachable) {
		x.heard = time.Now()
	} else if time.Since(x.heard) > silenceLimit { // the store fell silent: later steps need not find out again
		x.stop(err)
	}
	switch {
	case err == nil, errors.Is(err, store.ErrAbsent), errors.Is(err, store.ErrExists):
		t.answered++
		if t.denied != nil { // it was denied for a moment only
			t.denied, t.unknown = nil, t.unknown+t.denials
		}
		t.denials = 0
		if !x.crowded && !errors.Is(err, store.ErrExists) { // for this answer some stores only look
			t.took = append(t.took, took)
		}
	case e != nil && e.Class == core.ClassThrottled:
		t.throttled++
	case denial(err):
		t.denied, t.denials = e, t.denials+1
	default:
		t.unknown++
	}
}

// tallyOf returns the tally of a verb, and makes it first if need be. The caller holds mu.
func (x *examiner) tallyOf(verb string) *tally {
	t := x.verbs[verb]
	if t == nil {
		t = &tally{}
		x.verbs[verb] = t
	}
	return t
}

// crowd says whether from now on many requests are in flight at once. If so, their times
// do not tell how long a single one takes.
func (x *examiner) crowd(crowded bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.crowded = crowded
}

// answered reports whether a verb has ever been answered.
func (x *examiner) answered(verb string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tallyOf(verb).answered > 0
}

// denied returns why a verb may not be used, or nil.
func (x *examiner) denied(verb string) *store.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tallyOf(verb).denied
}

// insist asks again while the store does not answer. The store may apply the request
// more than once.
func insist[T any](ctx context.Context, x *examiner, verb, key string, do func(context.Context) (T, error)) (T, error) {
	return repeat(ctx, x, verb, key, passing, do)
}

// repeat asks again after an error for which again is true. It also asks again after the
// denial of a verb that was answered before: it may be denied only for a moment, such as
// while a token is renewed.
func repeat[T any](ctx context.Context, x *examiner, verb, key string, again func(error) bool, do func(context.Context) (T, error)) (T, error) {
	for pause := backOff; ; pause *= 2 {
		value, err := ask(ctx, x, verb, key, do)
		if err == nil || !again(err) && !(denial(err) && x.answered(verb)) || pause > backOff<<(attempts-2) || ctx.Err() != nil {
			return value, err
		}
		sleep(ctx, pause)
	}
}

// request is a way to make a request: ask or insist.
type request func(context.Context, *examiner, string, string, func(context.Context) (struct{}, error)) (struct{}, error)

func (x *examiner) put(key string, body []byte) error { return x.putBy(insist, key, body) }

func (x *examiner) putBy(by request, key string, body []byte) error {
	isNew := x.mark(key)
	_, err := by(x.ctx, x, "put", key, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, x.store.Put(ctx, key, body, bodyType)
	})
	if isNew && err != nil && !passing(err) {
		x.gone(key) // it was never there
	}
	return err
}

// create asks only once, unless the first request was denied: a second one would be told
// that the first one's object exists.
func (x *examiner) create(key string, body []byte) error {
	x.mark(key)
	never := func(error) bool { return false }
	_, err := repeat(x.ctx, x, "create", key, never, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, x.store.Create(ctx, key, body, bodyType)
	})
	return err
}

func (x *examiner) get(key string) (store.Object, error) {
	return insist(x.ctx, x, "get", key, func(ctx context.Context) (store.Object, error) { return x.store.Get(ctx, key) })
}

func (x *examiner) exists(key string) (bool, error) {
	return insist(x.ctx, x, "exists", key, func(ctx context.Context) (bool, error) { return x.store.Exists(ctx, key) })
}

// list returns the stamps of all keys with a prefix, with one request for each thousand.
func (x *examiner) list(prefix string) (map[string]int64, error) {
	found := map[string]int64{}
	after := ""
	for {
		type page struct {
			infos []store.Info
			more  bool
		}
		p, err := insist(x.ctx, x, "list", prefix, func(ctx context.Context) (page, error) {
			infos, more, err := x.store.List(ctx, prefix, after, 0)
			return page{infos, more}, err
		})
		if err != nil {
			return nil, err
		}
		for _, info := range p.infos {
			found[info.Key] = info.Stamp
			after = info.Key
		}
		if !p.more || len(p.infos) == 0 {
			return found, nil
		}
	}
}

func (x *examiner) remove(key string) error {
	return x.removeIn(x.ctx, key)
}

func (x *examiner) removeIn(ctx context.Context, key string) error {
	_, err := insist(ctx, x, "delete", key, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, x.store.Delete(ctx, key)
	})
	if err == nil {
		x.gone(key)
	}
	return err
}

// mark remembers a key that must be deleted, and reports whether it is a new one.
func (x *examiner) mark(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	isNew := !x.left[key]
	x.left[key] = true
	return isNew
}

func (x *examiner) gone(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.left, key)
}

const bodyType = "application/json"

// paper is the content of each object that a doctor writes, apart from the capability record.
type paper struct {
	V     int    `json:"v"`
	Nonce string `json:"nonce"`
	About string `json:"about"`
}

// fresh returns a body with a nonce of its own.
func fresh() []byte {
	body, err := json.Marshal(paper{1, uuid.NewString(), "written by mopslock's doctor to examine this store; it may be deleted"})
	if err != nil {
		panic("mopslock: doctor: " + err.Error()) // strings and a number always marshal
	}
	return body
}
