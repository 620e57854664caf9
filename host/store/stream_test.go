package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

func TestSource(t *testing.T) {
	boom := errors.New("boom")
	const text = "eleven char"
	for name, c := range map[string]struct {
		body        io.Reader
		size, limit int64
		want        error // nil: the body is read whole
	}{
		"known":         {strings.NewReader(text), 11, 11, nil},
		"unknown":       {strings.NewReader(text), -1, 11, nil},
		"end_with_data": {iotest.DataErrReader(strings.NewReader(text)), 11, 11, nil},
		"byte_by_byte":  {iotest.OneByteReader(strings.NewReader(text)), 11, 11, nil},
		"short":         {strings.NewReader(text), 12, 20, store.ErrBody},
		"long":          {strings.NewReader(text), 10, 20, store.ErrBody},
		"above_limit":   {strings.NewReader(text), -1, 10, store.ErrTooLarge},
		"fails":         {io.MultiReader(strings.NewReader("half"), iotest.ErrReader(boom)), -1, 20, boom},
	} {
		t.Run(name, func(t *testing.T) {
			failed := 0
			s, err := store.NewSource(t.Context(), c.body, c.size, c.limit, nil, func() { failed++ })
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(s)
			if c.want == nil {
				if err != nil || string(got) != text || s.Complete() != nil || s.Err() != nil || failed != 0 {
					t.Fatalf("%q, %v, %v, %d", got, err, s.Complete(), failed)
				}
				return
			}
			if !errors.Is(err, c.want) || s.Err() != err || s.Complete() != err || failed != 1 {
				t.Fatalf("%v, %v, %v, %d", err, s.Err(), s.Complete(), failed)
			}
			if _, again := s.Read(make([]byte, 1)); again != err || failed != 1 {
				t.Fatalf("then %v, %d", again, failed)
			}
			if store.ClassOf(err) != core.ClassOther {
				t.Fatal(store.ClassOf(err))
			}
		})
	}
}

func TestSourceRefuses(t *testing.T) {
	for _, c := range []struct {
		body        io.Reader
		size, limit int64
		want        error
	}{{nil, 0, 1, store.ErrBody}, {strings.NewReader(""), -2, 1, store.ErrBody}, {strings.NewReader(""), 2, 1, store.ErrTooLarge}} {
		if _, err := store.NewSource(t.Context(), c.body, c.size, c.limit, nil, nil); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestSourceInTime: Read returns io.EOF only while the write may still be applied.
func TestSourceInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	late := func() time.Time { return time.Now().Add(2 * time.Hour) }
	s, err := store.NewSource(ctx, strings.NewReader("x"), 1, 1, late, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(s); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrBody) {
		t.Fatal(err)
	}
}

func TestSourceDetached(t *testing.T) {
	body := bytes.NewReader(make([]byte, 10))
	s, err := store.NewSource(t.Context(), body, 10, math.MaxInt64, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	s.Detach()
	if _, err := s.Read(make([]byte, 3)); !errors.Is(err, store.ErrBody) || body.Len() != 7 {
		t.Fatal(err, body.Len())
	}
}

// TestBodysReasonIsNotTheStores: another store's answer about its object says nothing of
// ours.
func TestBodysReasonIsNotTheStores(t *testing.T) {
	theirs := store.Fail("get", "theirs", core.ClassThrottled, fmt.Errorf("x: %w", store.ErrAbsent))
	s, err := store.NewSource(t.Context(), iotest.ErrReader(theirs), -1, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(s)
	ours := store.Fail("create", "ours", store.ClassOf(err), err)
	var e *store.Error
	if errors.Is(ours, store.ErrAbsent) || !errors.As(ours, &e) || e.Class != core.ClassOther || !errors.Is(ours, store.ErrBody) {
		t.Fatal(ours)
	}
	if text := ours.Error(); !strings.Contains(text, "nothing was written") || strings.Contains(text, "may or may not") {
		t.Fatal(text)
	}
}
