package cloud

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// TestOverdueDuringTransfer: begun in time, and not applied for that.
func TestOverdueDuringTransfer(t *testing.T) {
	s := New(memblob.OpenBucket(nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	looks := 0
	s.now = func() time.Time {
		if looks++; looks > 1 {
			return time.Now().Add(2 * time.Hour)
		}
		return time.Now()
	}
	err := s.PutFrom(ctx, "k", strings.NewReader("x"), 1, "")
	var e *store.Error
	if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || e.Class != core.ClassUnreachable {
		t.Fatal(err)
	}
	if there, err := s.Exists(t.Context(), "k"); there || err != nil {
		t.Fatal(there, err)
	}
}

// TestDriverThatReadsLess: a yes without the whole body is not passed on.
func TestDriverThatReadsLess(t *testing.T) {
	s := New(memblob.OpenBucket(nil), &Options{Upload: func(context.Context, *Upload) error { return nil }})
	var e *store.Error
	if err := s.PutFrom(t.Context(), "k", strings.NewReader("x"), 1, ""); !errors.As(err, &e) || e.Class != core.ClassOther {
		t.Fatal(err)
	}
}

// broken is a driver whose objects break off, with an error or without.
type broken struct {
	fake
	err error
}

func (b *broken) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	return &half{Reader: strings.NewReader("half"), err: b.err}, nil
}

type half struct {
	*strings.Reader

	err error
}

func (h *half) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err == io.EOF {
		err = h.err
	}
	return n, err
}
func (h *half) Close() error                         { return nil }
func (h *half) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{Size: 8} }
func (h *half) As(any) bool                          { return false }

func TestOpenThatBreaksOff(t *testing.T) {
	for _, c := range []struct {
		err   error
		class core.Class
	}{{io.EOF, core.ClassUnreachable}, {awsLike{404, ""}, core.ClassOther}, {awsLike{503, "SlowDown"}, core.ClassThrottled}} {
		s := New(blob.NewBucket(&broken{fake: fake{code: gcerrors.NotFound}, err: c.err}), nil)
		body, info, err := s.Open(t.Context(), "k")
		if err != nil || info.Size != 8 {
			t.Fatal(info, err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		var e *store.Error
		if string(got) != "half" || !errors.As(err, &e) || e.Class != c.class || errors.Is(err, store.ErrAbsent) {
			t.Errorf("of %v: %q, %v", c.err, got, err)
		}
	}
}
