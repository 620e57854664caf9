package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/local"
)

// An object may be dated anyhow. That is the world's doing, no fault of ours,
// and must not end the process with all that it holds.
func TestOddlyDatedObject(t *testing.T) {
	ofDirectories(t, "nobody else dates a server's objects")
	dir := t.TempDir()
	s, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(s, &Options{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	path := filepath.Join(dir, "n", core.LockFile)
	for _, year := range []int{1, 1600, 2150, 2300} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("{"), 0o600)); err != nil {
			t.Fatal(err)
		}
		odd := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(path, odd, odd); err != nil {
			t.Logf("this file system has no %d: %v", year, err)
			continue
		}
		lease, err := h.TryAcquire(t.Context(), "n", lastWriter)
		if err == nil { // dated long ago: an unreadable record so old is taken
			err = lease.Release(t.Context())
		} else if errors.Is(err, ErrRefused) {
			err = nil
		}
		if err != nil {
			t.Errorf("%d: %v", year, err)
		}
	}
}

// deadMount is a store whose system calls come back when they like.
type deadMount struct {
	store.Store
	back   chan struct{}
	closed chan struct{}
}

func (d *deadMount) Get(context.Context, string) (store.Object, error) {
	<-d.back
	return store.Object{}, store.Fail("get", "n", core.ClassOther, os.ErrDeadlineExceeded)
}

func (d *deadMount) Close() error {
	close(d.closed)
	return nil
}

// Close returns when its ctx ends, whatever hangs, and says why.
func TestCloseOnDeadMount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := &deadMount{back: make(chan struct{}), closed: make(chan struct{})}
		mem, err := store.Open(t.Context(), "mem://")
		if err != nil {
			t.Fatal(err)
		}
		d.Store = mem
		h, err := New(d, &Options{Engine: engine, Clock: bubbleClock{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.TryAcquire(t.Context(), "n", lastWriter); !errors.Is(err, ErrRefused) {
			t.Errorf("try: %v", err)
		}
		waiter := make(chan error, 1)
		go func() {
			_, err := h.Acquire(context.Background(), "n", lastWriter)
			waiter <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := h.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if err := <-waiter; err == nil {
			t.Error("held on a dead mount")
		}
		close(d.back)
		<-d.closed // by whoever was left behind
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	})
}

// bubbleClock is the bubble's own time.
type bubbleClock struct{}

func (bubbleClock) Now() core.Instant {
	now := time.Now().UnixNano()
	return core.Instant{Mono: now, Wall: now}
}
