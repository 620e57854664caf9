package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestOwnLeaseOfAnotherSpelling: two Hosts on one directory are one store to a caller that
// would wait for itself, however their URLs spell it.
func TestOwnLeaseOfAnotherSpelling(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	slashed := "/" + strings.TrimPrefix(filepath.ToSlash(dir), "/") // file:///C:/dir
	open := func(url string) *Host {
		h, err := Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close(context.Background()) })
		return h
	}
	outer, err := open("file://"+slashed+"/real").Acquire(t.Context(), "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(outer.Context(), time.Minute)
	defer cancel()
	_, err = open("file://localhost"+slashed+"/./link/").Acquire(ctx, "n", nil)
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.of != ofOwn {
		t.Errorf("%v, and not that it would wait for itself", err)
	}
}
