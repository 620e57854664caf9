package local

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/mopslock/mopslock/host/store"
)

// copyBuffer is how many bytes of a body are in memory at once.
const copyBuffer = 256 << 10

// MaxSize implements store.Streamer. The filesystem's own limit shows only in the write
// that reaches it.
func (s *Store) MaxSize() int64 { return math.MaxInt64 }

// Open implements store.Streamer.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, store.Info, error) {
	path, err := s.enterToRead(ctx, key)
	if err != nil {
		return nil, store.Info{}, s.fail("get", key, err)
	}
	f, info, err := openObject(path)
	if err == nil {
		if err = s.spelling.check(s.root, key); err != nil {
			f.Close()
		}
	}
	if errDone := s.done("get", key, absentIfMissing(err)); errDone != nil {
		if err == nil {
			f.Close()
		}
		return nil, store.Info{}, errDone
	}
	body := &reader{store: s, ctx: ctx, key: key, file: f}
	return body, store.Info{Key: key, Size: info.Size(), Stamp: s.stamp(info)}, nil
}

// reader turns the errors of an object's file into those of a verb.
type reader struct {
	store *Store
	ctx   context.Context
	key   string
	file  *os.File
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, r.store.fail("get", r.key, err)
	}
	n, err := r.file.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.store.fail("get", r.key, err)
	}
	return n, err
}

func (r *reader) Close() error { return r.store.fail("get", r.key, r.file.Close()) }

// PutFrom implements store.Streamer in the way of Put. The temp file is as large as the
// object and beside the old one: both need room. If the body pauses for a day, a List
// elsewhere removes the temp file.
func (s *Store) PutFrom(ctx context.Context, key string, body io.Reader, size int64, _ string) error {
	path, err := s.enter(ctx, key)
	if err != nil {
		return s.fail("put", key, err)
	}
	temp, err := s.streamTemp(ctx, path, body, size, nil)
	if err != nil {
		return s.done("put", key, err)
	}
	return s.done("put", key, s.move(ctx, temp, path))
}

// CreateFrom implements store.Streamer in the way of Create. If the key is already taken,
// it does not read the body.
func (s *Store) CreateFrom(ctx context.Context, key string, body io.Reader, size int64, _ string) error {
	path, err := s.enterToRead(ctx, key)
	if err != nil {
		return s.fail("create", key, err)
	}
	if info, err := os.Lstat(path); err == nil {
		return s.done("create", key, taken(info))
	}
	var unsynced []string
	temp, err := s.streamTemp(ctx, path, body, size, &unsynced)
	if err != nil {
		return s.done("create", key, err)
	}
	defer os.Remove(temp)
	if err = s.mayMove(ctx, "create"); err == nil {
		err = link(temp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err == nil {
		err = s.spelling.check(s.root, key)
	}
	return s.done("create", key, err)
}

// streamTemp is writeTemp for a body that can be read only once: it retries only the
// making of the file. Once the file is there, its directory is not removed.
func (s *Store) streamTemp(ctx context.Context, path string, body io.Reader, size int64, unsynced *[]string) (temp string, err error) {
	source, err := store.NewSource(ctx, body, size, s.MaxSize(), s.now, nil)
	if err != nil {
		return "", err
	}
	var f *os.File
	err = s.retry(func() error {
		f, err = s.openTemp(path, true, unsynced)
		return err
	})
	if err != nil {
		return "", err
	}
	return f.Name(), fillTemp(f, unsynced, func() error {
		// The structs hide WriterTo and ReaderFrom, with which a side could choose its own buffer.
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{source}, make([]byte, copyBuffer))
		return err
	})
}
