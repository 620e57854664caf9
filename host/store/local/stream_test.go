package local

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// TestLateStreamIsNotApplied: as TestLateWriteIsNotApplied, after the whole body
// was written in time.
func TestLateStreamIsNotApplied(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s.beforeMove = func(op string) {
		if op == "put" {
			if err := other.Put(context.Background(), "n/result", []byte("theirs"), ""); err != nil {
				t.Error(err)
			}
		}
		s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	}
	write := func(op string) error {
		s.now = time.Now
		if op == "put" {
			return s.PutFrom(ctx, "n/result", &storetest.Body{Size: 1 << 20}, 1<<20, "")
		}
		return s.CreateFrom(ctx, "n/v", &storetest.Body{Size: 1 << 20}, 1<<20, "")
	}
	for _, op := range []string{"put", "create"} {
		err := write(op)
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v; context %v", err, ctx.Err())
		}
		wantClass(t, err, core.ClassUnreachable)
	}
	page, _, err := other.List(t.Context(), "", "", 0)
	if err != nil || len(page) != 1 || page[0].Size != int64(len("theirs")) {
		t.Fatal(page, err)
	}
	noTemps(t, dir)
}

// TestStreamHoldsLittle: of 64 MiB, less than one is ever allocated, all told.
func TestStreamHoldsLittle(t *testing.T) {
	const size, most = 64 << 20, 1 << 20
	s := open(t, t.TempDir())
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	if err := s.PutFrom(t.Context(), "n/k", &storetest.Body{Size: size}, size, ""); err != nil {
		t.Fatal(err)
	}
	body, info, err := s.Open(t.Context(), "n/k")
	if err != nil || info.Size != size {
		t.Fatal(info, err)
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, body); err != nil || n != size {
		t.Fatal(n, err)
	}
	if grown := allocated() - before; grown > most {
		t.Errorf("%d bytes allocated", grown)
	}
}

// TestStreamBesideDeletes: the directory vanishes before the temp file is in it,
// never after.
func TestStreamBesideDeletes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	err := s.CreateFrom(t.Context(), "n/m/k", &storetest.Body{Size: 1000, After: func(read int64) error {
		if read == 0 { // pruning goes up from an absent object
			return s.Delete(t.Context(), "n/m/other")
		}
		return nil
	}}, 1000, "")
	if err != nil {
		t.Fatal(err)
	}
	err = s.PutFrom(t.Context(), "n/m/k", &storetest.Body{Size: 1000, After: func(int64) error {
		return os.RemoveAll(filepath.Join(dir, "n"))
	}}, 1000, "")
	wantClass(t, err, core.ClassOther) // by force: unknown, and not read again
	if errors.Is(err, store.ErrBody) || errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
}

func TestStreamsOfWhatIsNoObject(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.Put(t.Context(), "d/x", nil, ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Open(t.Context(), "d"); !errors.Is(err, store.ErrAbsent) {
		t.Fatal(err)
	}
	wantClass(t, s.PutFrom(t.Context(), "d", &storetest.Body{}, 0, ""), core.ClassNoSuchStore)
	wantClass(t, s.CreateFrom(t.Context(), "d", &storetest.Body{}, 0, ""), core.ClassNoSuchStore)
	wantClass(t, s.CreateFrom(t.Context(), "d/x/y", &storetest.Body{}, 0, ""), core.ClassNoSuchStore)
	noTemps(t, s.Dir())
}
