// Package storetest is the conformance suite that every store passes: the memory, the
// local directory, and each server that the tests start.
//
// It checks what callers rely on, not what one store happens to do: an object is at its
// key or the key is refused; a Create has one winner; a reader never sees a part of a
// body; lists are complete, in byte order and fresh; a write whose ctx has ended is not
// applied; a stream arrives whole or not at all. It measures nothing.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Run runs the suite. open returns an empty store, or the same store under a prefix that
// was not used before. open closes the store by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, store.Store)
	}{
		{"absent", absent},
		{"put_get", putGet},
		{"create", create},
		{"overwrite", overwrite},
		{"overwriting", overwriting},
		{"sizes", sizes},
		{"keys", keys},
		{"keys_refused", keysRefused},
		{"neighbours", neighbours},
		{"delete", deleting},
		{"list_order_pages", listOrderPages},
		{"list_prefix", listPrefix},
		{"list_fresh", listFresh},
		{"stamps", stamps},
		{"context_over", contextOver},
		{"content_type", contentType},
		{"body_is_the_callers", bodyIsTheCallers},
		{"create_race", createRace},
		{"torn_reads", tornReads},
		{"watch", watch},
		{"stream_sizes", streamSizes},
		{"stream_large", streamLarge},
		{"stream_wrong_size", streamWrongSize},
		{"stream_body_fails", streamBodyFails},
		{"stream_cancelled", streamCancelled},
		{"stream_absent_refused", streamAbsentRefused},
		{"stream_create_race", streamCreateRace},
		{"stream_whole_or_none", streamWholeOrNone},
		{"close", closing},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

const kind = "application/json"

func put(t *testing.T, s store.Store, key, body string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(body), kind); err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

func wantBody(t *testing.T, s store.Store, key, body string) {
	t.Helper()
	object, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	if string(object.Body) != body {
		t.Fatalf("get %q: %d bytes, want %d: %.80q", key, len(object.Body), len(body), object.Body)
	}
}

func wantAbsent(t *testing.T, s store.Store, key string) {
	t.Helper()
	if there, err := s.Exists(t.Context(), key); err != nil || there {
		t.Fatalf("exists %q: %v, %v; want false", key, there, err)
	}
	_, err := s.Get(t.Context(), key)
	wantError(t, err, store.ErrAbsent, core.ClassNone)
}

// wantError also checks that err is a *store.Error.
func wantError(t *testing.T, err, target error, class core.Class) {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || !errors.Is(err, target) || e.Class != class {
		t.Fatalf("error %T %v; want a *store.Error that is %v, class %d", err, err, target, class)
	}
	if e.Op == "" || !strings.HasPrefix(err.Error(), "mopslock: store: "+e.Op+" ") {
		t.Fatalf("error text %q lacks its head", err)
	}
}

func listAll(t *testing.T, s store.Store, prefix string, limit int) []store.Info {
	t.Helper()
	var all []store.Info
	after := ""
	for range 10_000 {
		page, more, err := s.List(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		if len(page) > store.PageSize(limit) || more && len(page) == 0 {
			t.Fatalf("list %q limit %d: %d objects, more %v", prefix, limit, len(page), more)
		}
		all = append(all, page...)
		if !more {
			return all
		}
		after = page[len(page)-1].Key
	}
	t.Fatalf("list %q does not end", prefix)
	return nil
}

func keysOf(page []store.Info) []string {
	out := []string{}
	for _, info := range page {
		out = append(out, info.Key)
	}
	return out
}

func wantKeys(t *testing.T, got []store.Info, want []string) {
	t.Helper()
	if !slices.Equal(keysOf(got), want) {
		t.Fatalf("listed %q\nwant   %q", keysOf(got), want)
	}
}

func absent(t *testing.T, s store.Store) {
	wantAbsent(t, s, "n/lock.json")
	wantKeys(t, listAll(t, s, "", 0), []string{})
	wantKeys(t, listAll(t, s, "n/", 0), []string{})
	if err := s.Delete(t.Context(), "n/lock.json"); err != nil {
		t.Fatalf("delete of an absent object: %v", err)
	}
}

func putGet(t *testing.T, s store.Store) {
	put(t, s, "n/lock.json", "one")
	wantBody(t, s, "n/lock.json", "one")
	if there, err := s.Exists(t.Context(), "n/lock.json"); !there || err != nil {
		t.Fatalf("exists: %v, %v", there, err)
	}
	wantAbsent(t, s, "n/lock.jso")
	wantAbsent(t, s, "n/lock.json2")
	wantAbsent(t, s, "n") // a prefix is no object
}

func create(t *testing.T, s store.Store) {
	ctx := t.Context()
	if err := s.Create(ctx, "n/v", []byte("first"), kind); err != nil {
		t.Fatalf("create: %v", err)
	}
	wantError(t, s.Create(ctx, "n/v", []byte("second"), kind), store.ErrExists, core.ClassNone)
	wantBody(t, s, "n/v", "first")
	put(t, s, "n/w", "put")
	wantError(t, s.Create(ctx, "n/w", []byte("created"), kind), store.ErrExists, core.ClassNone)
	wantBody(t, s, "n/w", "put")
	if err := s.Delete(ctx, "n/v"); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, "n/v", []byte("third"), kind); err != nil {
		t.Fatalf("create after delete: %v", err)
	}
	wantBody(t, s, "n/v", "third")
}

func overwrite(t *testing.T, s store.Store) {
	for _, body := range []string{"a", strings.Repeat("long", 1000), "", "b"} {
		put(t, s, "n/o", body)
		wantBody(t, s, "n/o", body)
	}
	wantKeys(t, listAll(t, s, "", 0), []string{"n/o"})
}

// overwriting: a Put of what was there before is put where it still is. Where nothing is any
// more, it is put as well, or is absent, with nothing made.
func overwriting(t *testing.T, s store.Store) {
	ctx := store.Overwriting(t.Context())
	put(t, s, "n/d/o", "old")
	if err := s.Put(ctx, "n/d/o", []byte("new"), kind); err != nil {
		t.Fatal(err)
	}
	wantBody(t, s, "n/d/o", "new")
	if err := s.Put(ctx, "n/d/beside", []byte("b"), kind); err != nil {
		t.Fatalf("beside an object: %v", err)
	}
	for _, key := range []string{"n/d/o", "n/d/beside"} {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"n/d/o"}
	if err := s.Put(ctx, "n/d/o", []byte("again"), kind); err != nil {
		wantError(t, err, store.ErrAbsent, core.ClassNone)
		want = nil
	}
	wantKeys(t, listAll(t, s, "", 0), want)
}

func sizes(t *testing.T, s store.Store) {
	for _, size := range []int{0, 1, 511, 512, 513, core.MaxRecord - 1, core.MaxRecord, store.MaxBody, 3 * core.MaxRecord} {
		body := strings.Repeat("x", size)
		put(t, s, "size", body)
		wantBody(t, s, "size", body[:min(size, store.MaxBody)])
		page := listAll(t, s, "size", 0)
		if len(page) != 1 || page[0].Size != int64(size) {
			t.Fatalf("size %d: listed %+v", size, page)
		}
	}
	if err := s.Create(t.Context(), "empty", nil, kind); err != nil {
		t.Fatalf("create of an empty object: %v", err)
	}
	wantBody(t, s, "empty", "")
}

// oddKeys can all be names. A store keeps each one literally or refuses it.
var oddKeys = []string{
	"a b/c d", "100%/x", "a%2Fb/x", "a+b/x", "a&b=c/x", "q?x/y", "hash#x/y", "quote\"/x", "it's/x", "a;b/x", "a:b/x",
	"ünï/cödé", "日本/語", "emoji/🔒", "~tilde/x", "-dash/--x", ".hidden/.x", "a.b.c/d", "[x]/{y}", "a*b/x", "a|b/x",
	"<a>/x", "a@b/x", "$a/x", "!a/x", "a,b/x", "(a)/x", "UPPER/x", "a..b/x", "...a/x", "_mopslock/store.json",
	"space end/ x", strings.Repeat("s", 200) + "/x", strings.Repeat("deep/", 40) + "x",
	// Somewhere these are read as ways out of the prefix.
	"..%2fx", "%2e%2e/x", "..%5cx", "\u2024\u2024/x", "..\uff0fx", "__0x2e____0x2e__/x", "x?prefix=..", "-other/n",
}

func keys(t *testing.T, s store.Store) {
	kept := []string{}
	for _, key := range oddKeys {
		err := s.Create(t.Context(), key, []byte(key), kind)
		if errors.Is(err, store.ErrKey) {
			t.Logf("refused: %v", err)
			_, err = s.Get(t.Context(), key)
			wantError(t, err, store.ErrKey, core.ClassOther)
			continue
		}
		if err != nil {
			t.Fatalf("create %q: %v", key, err)
		}
		kept = append(kept, key)
	}
	if len(kept) < len(oddKeys)-11 {
		t.Fatalf("only %d of %d keys kept", len(kept), len(oddKeys))
	}
	slices.Sort(kept)
	wantKeys(t, listAll(t, s, "", 0), kept)
	wantKeys(t, listAll(t, s, "", 7), kept)
	for _, key := range kept {
		wantBody(t, s, key, key)
		wantKeys(t, listAll(t, s, key, 0), []string{key})
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatalf("delete %q: %v", key, err)
		}
		wantAbsent(t, s, key)
	}
	wantKeys(t, listAll(t, s, "", 0), []string{})
}

func keysRefused(t *testing.T, s store.Store) {
	ctx := t.Context()
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "../a", "a/..", "a\\b", "a\x00b", "a\nb", "\xff", strings.Repeat("x", store.MaxKey+1),
	} {
		_, errGet := s.Get(ctx, key)
		_, errExists := s.Exists(ctx, key)
		for _, err := range []error{
			errGet, errExists, s.Put(ctx, key, nil, kind), s.Create(ctx, key, nil, kind), s.Delete(ctx, key),
		} {
			wantError(t, err, store.ErrKey, core.ClassOther)
		}
	}
	for _, prefix := range []string{"/", "../", "a/../b", "a//", "a\\"} {
		_, _, err := s.List(ctx, prefix, "", 0)
		wantError(t, err, store.ErrKey, core.ClassOther)
	}
	wantKeys(t, listAll(t, s, "", 0), []string{})
}

func neighbours(t *testing.T, s store.Store) {
	put(t, s, "n/lock", "short")
	put(t, s, "n/lock.json", "long")
	put(t, s, "nn/lock", "other")
	wantBody(t, s, "n/lock", "short")
	wantBody(t, s, "n/lock.json", "long")
	if err := s.Delete(t.Context(), "n/lock"); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, s, "n/lock")
	wantBody(t, s, "n/lock.json", "long")
	wantBody(t, s, "nn/lock", "other")
}

func deleting(t *testing.T, s store.Store) {
	put(t, s, "a/b/c/d", "x")
	put(t, s, "a/b/e", "y")
	for range 2 {
		if err := s.Delete(t.Context(), "a/b/c/d"); err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, s, "a/b/c/d")
	}
	if err := s.Delete(t.Context(), "a/b"); err != nil { // a prefix, not an object
		t.Fatal(err)
	}
	wantBody(t, s, "a/b/e", "y")
	put(t, s, "a/b/c/d", "again")
	wantKeys(t, listAll(t, s, "", 0), []string{"a/b/c/d", "a/b/e"})
}

func stamps(t *testing.T, s store.Store) {
	unit := s.StampUnit()
	if unit < 1 || unit > 2*time.Second {
		t.Fatalf("StampUnit %v", unit)
	}
	// A day, since a server may have a clock of its own. The doctor measures the
	// difference.
	const near = int64(24 * time.Hour)
	last := int64(0)
	for i := range 5 {
		put(t, s, "stamp", fmt.Sprint(i))
		object, err := s.Get(t.Context(), "stamp")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().UnixNano()
		if object.Stamp < now-near || object.Stamp > now+near {
			t.Fatalf("stamp %d, now %d", object.Stamp, now)
		}
		if object.Stamp < last-int64(unit) {
			t.Fatalf("stamp went back by %v", time.Duration(last-object.Stamp))
		}
		if page := listAll(t, s, "stamp", 0); len(page) != 1 || page[0].Stamp != object.Stamp {
			t.Fatalf("get says %d, list %+v", object.Stamp, page)
		}
		last = object.Stamp
	}
	if now := s.StampUnit(); now > unit {
		t.Fatalf("StampUnit grew from %v to %v", unit, now)
	}
}

func contextOver(t *testing.T, s store.Store) {
	put(t, s, "there", "old")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel2 := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel2()
	for _, c := range []struct {
		ctx    context.Context
		target error
		class  core.Class
	}{{cancelled, context.Canceled, core.ClassOther}, {expired, context.DeadlineExceeded, core.ClassUnreachable}} {
		_, errGet := s.Get(c.ctx, "there")
		_, errExists := s.Exists(c.ctx, "there")
		_, _, errList := s.List(c.ctx, "", "", 0)
		for _, err := range []error{
			errGet, errExists, errList, s.Put(c.ctx, "there", []byte("new"), kind),
			s.Create(c.ctx, "fresh", []byte("new"), kind), s.Delete(c.ctx, "there"),
		} {
			wantError(t, err, c.target, c.class)
		}
	}
	wantBody(t, s, "there", "old")
	wantKeys(t, listAll(t, s, "", 0), []string{"there"})
}

func contentType(t *testing.T, s store.Store) {
	for _, want := range []string{core.LockFileType, kind} {
		if err := s.Put(t.Context(), "typed", []byte("{}"), want); err != nil {
			t.Fatal(err)
		}
		object, err := s.Get(t.Context(), "typed")
		if err != nil || object.Type != "" && object.Type != want {
			t.Fatalf("type %q, %v; want %q or none", object.Type, err, want)
		}
	}
	if err := s.Put(t.Context(), "untyped", []byte("x"), ""); err != nil {
		t.Fatal(err)
	}
}

// bodyIsTheCallers: the core's buffers are used again after each step.
func bodyIsTheCallers(t *testing.T, s store.Store) {
	body := []byte("mine")
	if err := s.Put(t.Context(), "body", body, kind); err != nil {
		t.Fatal(err)
	}
	copy(body, "your")
	wantBody(t, s, "body", "mine")
	object, err := s.Get(t.Context(), "body")
	if err != nil {
		t.Fatal(err)
	}
	copy(object.Body, "your")
	wantBody(t, s, "body", "mine")
}

func closing(t *testing.T, s store.Store) {
	put(t, s, "a", "b")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	_, errGet := s.Get(t.Context(), "a")
	_, errExists := s.Exists(t.Context(), "a")
	_, _, errList := s.List(t.Context(), "", "", 0)
	for _, err := range []error{
		errGet, errExists, errList, s.Put(t.Context(), "a", nil, kind), s.Create(t.Context(), "c", nil, kind), s.Delete(t.Context(), "a"),
	} {
		wantError(t, err, store.ErrClosed, core.ClassOther)
	}
}
