// Package local keeps objects as files below one directory of this machine, or
// of one that is mounted. Importing it registers file:// with store.Open.
//
// The object KEY is the file DIR/KEY, byte for byte: nothing is escaped, there
// are no sidecar files, and other programs (mops) may read and write the same
// files. The content type of a Put is not kept. Directories are made when the
// first object below them is written (mode 0777 less umask), DIR too, and
// removed again when a Delete leaves them empty, DIR excepted. So a directory
// that is not mounted looks like an empty store.
//
// A key and another below it (a, a/b) cannot both be objects. On filesystems
// that fold case, keys that differ in case only are one. Create needs hard
// links; without them its error is errors.ErrUnsupported. A system call that
// hangs (a dead NFS server) is not interrupted by ctx.
//
// It does not lock files, and does not sync what Put writes: a crash of the
// machine may bring an older body back, but it ends every holder on that
// machine too. Create syncs the file and its directory before it says yes.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

func init() {
	store.Register("file", func(_ context.Context, at *store.Location) (store.Store, error) {
		return Open(at.Dir)
	})
}

const (
	// tempPrefix begins the name of every file that is being written. No key
	// may have a segment that begins so.
	tempPrefix = ".mopslock-tmp-"
	// tempLife is the age at which a List removes a temp file: whoever wrote it
	// has crashed.
	tempLife = 24 * time.Hour
	// maxTries bounds how often a write makes its directory anew when a Delete
	// elsewhere keeps removing it.
	maxTries = 16
	// tick is the coarsest step of the clock that kernels stamp files with
	// (Linux at 100 Hz; Windows 15.6 ms).
	tick = 16 * time.Millisecond
)

// Store is a store.Store, a store.Watcher and a store.Streamer on a directory.
type Store struct {
	root   string
	fine   atomic.Bool // a stamp with a fraction of a second was seen
	closed atomic.Bool
	watch  watcher

	// For tests: the clock, what happens between a finished temp file and the
	// clock check, changeFraction, and isOurs.
	now        func() time.Time
	beforeMove func(op string)
	changed    func(fs.FileInfo) int64
	isOurs     func(dir string) (bool, error)
}

// Open returns the store on dir, which is made absolute. It does no I/O: dir
// need not exist.
func Open(dir string) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return nil, store.Fail("open", dir, core.ClassOther, fmt.Errorf("%w: it has no directory", store.ErrURL))
	}
	s := &Store{root: root, now: time.Now, beforeMove: func(string) {}, changed: changeFraction, isOurs: isOurs}
	return s, nil
}

// SteppingClock implements store.SteppingClock: files are stamped by a wall
// clock, which NTP may step.
func (s *Store) SteppingClock() {}

// Orderly implements store.Orderly: on a file system of this kernel's own. The clock is
// read right before the one system call that applies a write. A directory that is not
// there yet is judged by the one above it.
func (s *Store) Orderly() bool {
	for dir := s.root; ; dir = filepath.Dir(dir) {
		is, err := s.isOurs(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return is
		}
	}
}

// Dir returns the absolute path of the directory.
func (s *Store) Dir() string { return s.root }

// Get implements store.Store. The stamp is that of the file that was opened,
// also when another has taken its place since.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	path, err := s.enter(ctx, key)
	if err != nil {
		return store.Object{}, s.fail("get", key, err)
	}
	object, err := s.read(path)
	if err != nil {
		return store.Object{}, s.fail("get", key, s.absentOrNoStore(err))
	}
	return object, nil
}

func (s *Store) read(path string) (store.Object, error) {
	f, info, err := openObject(path)
	if err != nil {
		return store.Object{}, err
	}
	defer f.Close()
	body, err := readAll(f, info.Size())
	if err != nil {
		return store.Object{}, err
	}
	return store.Object{Body: body, Stamp: s.stamp(info)}, nil
}

// openObject opens a regular file, and nothing else.
func openObject(path string) (*os.File, fs.FileInfo, error) {
	// Non-blocking, so that a named pipe in the directory cannot hang us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readAll reads at most MaxBody bytes. size is a hint: others may append.
func readAll(f *os.File, size int64) ([]byte, error) {
	body := make([]byte, 0, min(size, store.MaxBody)+1)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := f.Read(body[len(body):min(cap(body), store.MaxBody+1)])
		body = body[:len(body)+n]
		switch {
		case len(body) >= store.MaxBody:
			return body[:store.MaxBody], nil
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// Put implements store.Store: a temp file in the same directory, renamed. Not
// synced. After an error the object is the old one or the new one, whole.
func (s *Store) Put(ctx context.Context, key string, body []byte, _ string) error {
	path, err := s.enter(ctx, key)
	if err != nil {
		return s.fail("put", key, err)
	}
	err = s.retry(func() error {
		temp, err := s.writeTemp(path, body, nil)
		if err != nil {
			return err
		}
		if err := s.mayMove(ctx, "put"); err != nil {
			os.Remove(temp)
			return err
		}
		if err := os.Rename(temp, path); err != nil {
			os.Remove(temp)
			return err
		}
		return nil
	})
	return s.fail("put", key, err)
}

// Create implements store.Store: a synced temp file, link(2), which fails if
// the name is taken, and a sync of the directory. After an error that is not
// ErrExists the object may be there, whole.
func (s *Store) Create(ctx context.Context, key string, body []byte, _ string) error {
	path, err := s.enter(ctx, key)
	if err != nil {
		return s.fail("create", key, err)
	}
	// Losing costs a stat, not a sync. Only a yes needs the link.
	if info, err := os.Lstat(path); err == nil {
		return s.fail("create", key, taken(info))
	}
	var unsynced []string
	err = s.retry(func() error {
		temp, err := s.writeTemp(path, body, &unsynced)
		if err != nil {
			return err
		}
		defer os.Remove(temp)
		if err := s.mayMove(ctx, "create"); err != nil {
			return err
		}
		if err := link(temp, path); err != nil {
			return err
		}
		return syncDir(filepath.Dir(path))
	})
	return s.fail("create", key, err)
}

// Exists implements store.Store.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	path, err := s.enter(ctx, key)
	if err != nil {
		return false, s.fail("exists", key, err)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = regular(info)
	}
	if err = absentIfMissing(err); errors.Is(err, store.ErrAbsent) {
		return false, nil
	}
	return err == nil, s.fail("exists", key, err)
}

// Delete implements store.Store. It also removes the directories that it
// leaves empty, so that the versions of a register leave no skeleton behind.
func (s *Store) Delete(ctx context.Context, key string) error {
	path, err := s.enter(ctx, key)
	if err != nil {
		return s.fail("delete", key, err)
	}
	if err := s.mayMove(ctx, "delete"); err != nil {
		return s.fail("delete", key, err)
	}
	err = os.Remove(path)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		return nil // a directory: no object has this key
	}
	if err = absentIfMissing(err); errors.Is(err, store.ErrAbsent) {
		return nil
	}
	if err != nil {
		return s.fail("delete", key, err)
	}
	// rmdir refuses a directory that is not empty, so this removes nobody's
	// object; a writer whose directory goes between its mkdir and its open
	// makes it again (retry).
	for dir := filepath.Dir(path); len(dir) > len(s.root); dir = filepath.Dir(dir) {
		// os.Remove would unlink a link to a directory that somebody shares with others.
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || os.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// StampUnit implements store.Store: a tick of the kernel's clock, or one second
// as long as neither the directory nor an object that was read has shown a
// stamp with a fraction (old ext3, HFS+). On FAT, which has no links anyway,
// it would be two.
func (s *Store) StampUnit() time.Duration {
	for dir := s.root; !s.fine.Load(); {
		if info, err := os.Stat(dir); err == nil {
			s.stamp(info)
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	if s.fine.Load() {
		return tick
	}
	return time.Second
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.watch.close()
	return nil
}

// enter is what every verb does first. It returns the path of the object.
func (s *Store) enter(ctx context.Context, key string) (path string, err error) {
	if s.closed.Load() {
		return "", store.ErrClosed
	}
	if err := checkKey(key); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return s.path(key), nil
}

func (s *Store) path(key string) string {
	return filepath.Join(s.root, filepath.FromSlash(key))
}

// CheckKey implements store.KeyChecker.
func (s *Store) CheckKey(key string) error { return s.fail("check", key, checkKey(key)) }

func checkKey(key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(key, "/") {
		if isTemp(segment) {
			return fmt.Errorf("%w: a segment begins with %s, which marks files being written", store.ErrKey, tempPrefix)
		}
	}
	// A no-op but on Windows: drive letters, device names, streams.
	if !filepath.IsLocal(filepath.FromSlash(key)) || runtime.GOOS == "windows" && strings.ContainsAny(key, `:*?"<>|`) {
		return fmt.Errorf("%w: it is no file name here", store.ErrKey)
	}
	return nil
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// mayMove is the last look at the clock before the one system call that
// applies a write. Nothing may be put between its return and that call: what
// is left is the time of a few instructions, and the fencing token.
//
//	us:    temp file written ── SIGSTOP ═══════ SIGCONT ── mayMove: too late ── temp removed
//	other:                         takes the lease, writes N
//
// Without it the rename would bring our old body back over theirs.
func (s *Store) mayMove(ctx context.Context, op string) error {
	s.beforeMove(op)
	return store.Overdue(ctx, s.now())
}

var (
	errBelow      = errors.New("a directory has this name: a key and another below it cannot both be objects of a local directory")
	errNotRegular = errors.New("something that is neither a file nor a directory has this name")
)

// regular refuses what is no object. A directory is an absent one.
func regular(info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return store.ErrAbsent
	}
	return errNotRegular
}

// absentIfMissing tells "no such file" from other errors. Below a file (a/b
// where a is one) there is none either.
func absentIfMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return store.ErrAbsent
	}
	return err
}

// absentOrNoStore is absentIfMissing for a reader, to whom it matters whether
// there is a directory at all: a file in its place has no objects either, but
// no lease will ever be in it.
func (s *Store) absentOrNoStore(err error) error {
	if errors.Is(err, syscall.ENOTDIR) && s.missing() {
		return err
	}
	return absentIfMissing(err)
}

// stamp takes the modification time of a file, and remembers whether this
// filesystem has fractions of a second.
func (s *Store) stamp(info fs.FileInfo) int64 {
	if year := info.ModTime().Year(); year < 1700 || year > 2200 {
		return 0 // beyond what nanoseconds can count; it tells nothing
	}
	ns := info.ModTime().UnixNano()
	if !s.fine.Load() && (ns%int64(time.Second) != 0 || s.changed(info) != 0) {
		s.fine.Store(true)
	}
	return ns
}

// fail makes the error of a verb, nil of nil.
func (s *Store) fail(op, key string, err error) error {
	class := store.ClassOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrAbsent), errors.Is(err, store.ErrExists):
		class = core.ClassNone
	case errors.Is(err, store.ErrKey), errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled),
		errors.Is(err, store.ErrBody), errors.Is(err, store.ErrTooLarge):
		// The directory is not at fault.
	case (class == core.ClassOther || class == core.ClassUnauthorized) && s.missing():
		class = core.ClassNoSuchStore
	case errors.Is(err, errBelow):
		class = core.ClassNoSuchStore
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTDIR):
		// It stays so until somebody moves what is in the way.
		class, err = core.ClassNoSuchStore, fmt.Errorf("%w (%w)", errBelow, err)
	}
	return store.Fail(op, key, class, err)
}

// missing reports whether the directory of the store is not there: a write that
// has just failed could not make it.
func (s *Store) missing() bool {
	info, err := os.Stat(s.root)
	if err != nil {
		return errors.Is(absentIfMissing(err), store.ErrAbsent)
	}
	return !info.IsDir()
}
