package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Body is a made-up body that is never in memory as a whole: Size bytes that depend on
// Seed, which is the first byte. Its Read gives at most 100,000 bytes at a time.
type Body struct {
	Seed byte
	Size int64
	// After, if not nil, is called before each Read with the number of bytes read so
	// far. Read returns its error.
	After func(read int64) error

	read    int64
	largest int // the largest buffer that Read was given
}

func (b *Body) Read(p []byte) (int, error) {
	b.largest = max(b.largest, len(p))
	if b.After != nil {
		if err := b.After(b.read); err != nil {
			return 0, err
		}
	}
	if b.read == b.Size {
		return 0, io.EOF
	}
	whole := pattern()
	at := (b.read + int64(b.Seed)*4099) % int64(len(whole))
	n := copy(p[:min(int64(len(p)), b.Size-b.read, 100_000)], whole[at:])
	if b.read == 0 {
		p[0] = b.Seed
	}
	b.read += int64(n)
	return n, nil
}

// pattern has the bytes of all bodies. No part of a transfer is a multiple of its length.
var pattern = sync.OnceValue(func() []byte {
	all := make([]byte, 1<<20+7)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(all) // never fails
	return all
})

// sum returns the SHA-256 of what r holds, and its length.
func sum(t *testing.T, r io.Reader) (string, int64) {
	t.Helper()
	hash := sha256.New()
	n, err := io.Copy(hash, r)
	if err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), n
}

// streamer returns the store as a Streamer, which each of ours is.
func streamer(t *testing.T, s store.Store) store.Streamer {
	t.Helper()
	streams, ok := s.(store.Streamer)
	if !ok {
		t.Fatal("this store is no Streamer")
	}
	return streams
}

// writers returns both ways to write a stream.
func writers(s store.Streamer) map[string]func(context.Context, string, io.Reader, int64, string) error {
	return map[string]func(context.Context, string, io.Reader, int64, string) error{"put": s.PutFrom, "create": s.CreateFrom}
}

func wantStream(t *testing.T, s store.Streamer, key string, want *Body) {
	t.Helper()
	body, info, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("open %q: %v", key, err)
	}
	defer body.Close()
	if info.Key != key || info.Size != want.Size && info.Size != -1 || info.Stamp == 0 {
		t.Fatalf("open %q: %+v; want %d bytes", key, info, want.Size)
	}
	got, n := sum(t, body)
	if wanted, _ := sum(t, &Body{Seed: want.Seed, Size: want.Size}); got != wanted {
		t.Fatalf("%q: %d bytes, want %d; SHA-256 %s, want %s", key, n, want.Size, got, wanted)
	}
}

// seedOf returns the Seed of the Body at a key: its first byte.
func seedOf(t *testing.T, s store.Streamer, key string) byte {
	t.Helper()
	body, _, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatalf("open %q: %v", key, err)
	}
	defer body.Close()
	var first [1]byte
	if _, err := io.ReadFull(body, first[:]); err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	return first[0]
}

func streamSizes(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	for op, write := range writers(streams) {
		for _, size := range []int64{0, 1, core.MaxRecord, store.MaxBody, 256 << 10, 1<<20 + 1} {
			for _, said := range []int64{size, -1} {
				key := fmt.Sprintf("s/%s/%d/%d", op, size, said)
				body := &Body{Size: size, Seed: byte(size)}
				if err := write(t.Context(), key, body, said, kind); err != nil {
					t.Fatal(err)
				}
				wantStream(t, streams, key, body)
				if page := listAll(t, s, key, 0); len(page) != 1 || page[0].Size != size {
					t.Fatalf("listed %+v", page)
				}
			}
		}
	}
	// The verbs are about the same objects.
	wantBody(t, s, "s/put/0/-1", "")
	put(t, s, "s/put/0/-1", "x")
	if err := streams.CreateFrom(t.Context(), "s/put/0/-1", &Body{}, 0, kind); !errors.Is(err, store.ErrExists) {
		t.Fatal(err)
	}
	if err := streams.PutFrom(t.Context(), "s/put/0/-1", bytes.NewReader([]byte("streamed")), 8, ""); err != nil {
		t.Fatal(err)
	}
	wantBody(t, s, "s/put/0/-1", "streamed")
}

// large is more than one part on each cloud, and no multiple of any.
const large = 16<<20 + 4321

func streamLarge(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	for op, write := range writers(streams) {
		for _, said := range []int64{large, -1} {
			body := &Body{Size: large, Seed: 7}
			key := fmt.Sprintf("large/%s/%d", op, said)
			if err := write(t.Context(), key, body, said, ""); err != nil {
				t.Fatal(err)
			}
			if body.largest > store.MaxBuffer {
				t.Errorf("%s: a buffer of %d bytes", op, body.largest)
			}
			wantStream(t, streams, key, body)
		}
	}
	late := &Body{Size: large, After: func(int64) error { return errors.New("read for nothing") }}
	wantError(t, streams.CreateFrom(t.Context(), "large/put/-1", late, large, ""), store.ErrExists, core.ClassNone)
}

func streamWrongSize(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	put(t, s, "there", "old")
	for _, size := range []int64{0, 1000, 9 << 20} {
		for _, said := range []int64{size + 1, size - 1, -2} {
			if size == 0 && said == -1 {
				continue
			}
			for op, write := range writers(streams) {
				key := map[string]string{"put": "there", "create": "fresh"}[op]
				err := write(t.Context(), key, &Body{Size: size}, said, kind)
				wantError(t, err, store.ErrBody, core.ClassOther)
			}
		}
	}
	if limit := streams.MaxSize(); limit < 1<<30 {
		t.Errorf("MaxSize %d", limit)
	} else if limit < math.MaxInt64 {
		wantError(t, streams.PutFrom(t.Context(), "there", &Body{Size: limit + 1}, limit+1, kind), store.ErrTooLarge, core.ClassOther)
	}
	wantBody(t, s, "there", "old")
	wantKeys(t, listAll(t, s, "", 0), []string{"there"})
}

// streamBodyFails: some reasons would mean something if they were the store's own.
func streamBodyFails(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	put(t, s, "there", "old")
	boom := errors.New("boom")
	for _, reason := range []error{boom, store.ErrAbsent, store.ErrExists, io.EOF, io.ErrUnexpectedEOF, context.Canceled} {
		for _, at := range []int64{0, 1, large / 2, large} {
			if reason != boom && at > 1 {
				break // one reason is enough for the other places
			}
			for op, write := range writers(streams) {
				key := map[string]string{"put": "there", "create": "fresh"}[op]
				err := write(t.Context(), key, &Body{Size: large, After: func(read int64) error {
					if read >= at {
						return fmt.Errorf("source: %w", reason)
					}
					return nil
				}}, -1, kind)
				wantError(t, err, store.ErrBody, core.ClassOther)
				hidden := slices.Contains([]error{store.ErrAbsent, store.ErrExists, io.EOF}, reason)
				if errors.Is(err, reason) == hidden {
					t.Fatalf("%s at %d of %v: %v", op, at, reason, err)
				}
			}
		}
	}
	wantBody(t, s, "there", "old")
	wantKeys(t, listAll(t, s, "", 0), []string{"there"})
}

func streamCancelled(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	put(t, s, "there", "old")
	for op, write := range writers(streams) {
		key := map[string]string{"put": "there", "create": "fresh"}[op]
		for _, at := range []int64{0, large / 2, large} {
			ctx, cancel := context.WithCancel(t.Context())
			err := write(ctx, key, &Body{Size: large, After: func(read int64) error {
				if read >= at {
					cancel()
				}
				return nil
			}}, large, kind)
			cancel()
			wantError(t, err, context.Canceled, core.ClassOther)
		}
		expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		wantError(t, write(expired, key, &Body{Size: 1}, 1, kind), context.DeadlineExceeded, core.ClassUnreachable)
		cancel()
	}
	wantBody(t, s, "there", "old")
	wantKeys(t, listAll(t, s, "", 0), []string{"there"})

	if err := streams.PutFrom(t.Context(), "there", &Body{Size: large}, large, kind); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	body, _, err := streams.Open(ctx, "there")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadFull(body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = io.Copy(io.Discard, body)
	wantError(t, err, context.Canceled, core.ClassOther)
}

func streamAbsentRefused(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	_, _, err := streams.Open(t.Context(), "n/none")
	wantError(t, err, store.ErrAbsent, core.ClassNone)
	for _, key := range []string{"", "a//b", "../a", "a\\b"} {
		_, _, err := streams.Open(t.Context(), key)
		wantError(t, err, store.ErrKey, core.ClassOther)
		for _, write := range writers(streams) {
			wantError(t, write(t.Context(), key, &Body{}, 0, kind), store.ErrKey, core.ClassOther)
		}
	}
	wantError(t, streams.PutFrom(t.Context(), "n/none", nil, 0, kind), store.ErrBody, core.ClassOther)
	wantKeys(t, listAll(t, s, "", 0), []string{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = streams.Open(t.Context(), "n/none")
	wantError(t, err, store.ErrClosed, core.ClassOther)
	for _, write := range writers(streams) {
		wantError(t, write(t.Context(), "n/none", &Body{}, 0, kind), store.ErrClosed, core.ClassOther)
	}
}

func streamCreateRace(t *testing.T, s store.Store) {
	const racers, size = 8, 300_000
	streams := streamer(t, s)
	for round := range 5 {
		key := fmt.Sprintf("race/%d/v", round)
		var (
			ready, all sync.WaitGroup
			mu         sync.Mutex
			winners    []byte
			unsure     []byte // a server that refuses an upload before its end may cut it off
		)
		ready.Add(racers)
		for racer := range byte(racers) {
			all.Go(func() {
				var met sync.Once
				// All are in the middle of their bodies before any ends.
				body := &Body{Size: size, Seed: racer, After: func(read int64) error {
					if read >= size/2 {
						met.Do(func() { ready.Done(); ready.Wait() })
					}
					return nil
				}}
				err := streams.CreateFrom(t.Context(), key, body, size, kind)
				met.Do(ready.Done) // a racer that failed before must not hold up the others
				mu.Lock()
				defer mu.Unlock()
				var failed *store.Error
				switch {
				case err == nil:
					winners = append(winners, racer)
				case errors.Is(err, store.ErrExists):
				case errors.As(err, &failed) && failed.Class == core.ClassUnreachable:
					unsure = append(unsure, racer)
				default:
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		if len(winners) == 0 && len(unsure) > 0 { // one of them has won without an answer
			winners = []byte{seedOf(t, streams, key)}
			if !slices.Contains(unsure, winners[0]) {
				t.Fatalf("round %d: the body is that of racer %d, which was refused", round, winners[0])
			}
		}
		if len(winners) != 1 {
			t.Fatalf("round %d: winners %v", round, winners)
		}
		wantStream(t, streams, key, &Body{Size: size, Seed: winners[0]})
	}
}

// streamWholeOrNone: a reader that has begun ends in the same object. A reader that opens
// the key while another object is being written gets the old one.
func streamWholeOrNone(t *testing.T, s store.Store) {
	streams := streamer(t, s)
	before, after := &Body{Size: large, Seed: 1}, &Body{Size: 9 << 20, Seed: 2}
	if err := streams.PutFrom(t.Context(), "w", before, large, kind); err != nil {
		t.Fatal(err)
	}
	begun, _, err := streams.Open(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	defer begun.Close()
	half := io.LimitReader(begun, large/2)
	hash := sha256.New()
	if _, err := io.Copy(hash, half); err != nil {
		t.Fatal(err)
	}
	var looked sync.Once
	after.After = func(read int64) error {
		if read >= after.Size/2 {
			looked.Do(func() { wantStream(t, streams, "w", before) })
		}
		return nil
	}
	if err := streams.PutFrom(t.Context(), "w", after, after.Size, kind); err != nil {
		t.Fatal(err)
	}
	wantStream(t, streams, "w", &Body{Size: after.Size, Seed: 2})
	if _, err := io.Copy(hash, begun); err != nil {
		t.Fatal(err)
	}
	if want, _ := sum(t, &Body{Size: large, Seed: 1}); fmt.Sprintf("%x", hash.Sum(nil)) != want {
		t.Fatal("the reader that had begun got a mixture of both objects")
	}
}
