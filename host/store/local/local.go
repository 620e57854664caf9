// Package local keeps objects as files below one directory, on this machine or on a
// mount. Importing it registers file:// with store.Open.
//
// The object KEY is the file DIR/KEY, byte for byte: nothing is escaped, there are no
// sidecar files, and other programs (mops) may read and write the same files. A Put does
// not keep the content type. The first write below a directory makes it (mode 0777 less
// umask), but for a Put that overwrites. A Delete that leaves a directory empty removes it.
// DIR itself is made when the store is opened, and never again (root.go): if it is removed,
// moved or unmounted, every verb fails with store.ErrMoved until it is back. A process that
// opens the store while the mount is away makes DIR below the mount point, unless its URL
// says create=false.
//
// A key and another below it (a, a/b) cannot both be objects. Neither can keys that differ
// only in case, where the filesystem takes them for one (macOS, Windows): the second is
// refused (fold.go). Create needs hard links; without them its
// error is errors.ErrUnsupported. ctx does not interrupt a system call that hangs (a dead
// NFS server).
//
// It does not lock files, and does not sync what Put writes: a crash of the machine may
// bring an older body back, but it also ends every holder on that machine. Create syncs
// the file and its directory before it says yes.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

func init() {
	store.Register("file", func(_ context.Context, at *store.Location) (store.Store, error) {
		return openAt(at.Dir, at.Query.Has("create"))
	})
}

const (
	// tempPrefix begins the name of every file that is being written. No segment of a
	// key may begin so.
	tempPrefix = ".mopslock-tmp-"
	// tempLife is the age at which a List removes a temp file: its writer has
	// crashed.
	tempLife = 24 * time.Hour
	// maxTries bounds how often a write makes its directory again when a Delete
	// elsewhere keeps removing it.
	maxTries = 64
	// tick is the coarsest step of the clock that kernels stamp files with
	// (Linux at 100 Hz; Windows 15.6 ms).
	tick = 16 * time.Millisecond
)

// Store is a store.Store, a store.Watcher and a store.Streamer on a directory.
type Store struct {
	root      string
	mustExist bool // the root is never made
	rootMu    sync.Mutex
	identity  atomic.Pointer[identity] // nil until the root was found or made
	moved     atomic.Bool              // the latest check did not find it
	looks     atomic.Uint32            // for a record, while there was none

	fine   atomic.Bool // a stamp with a fraction of a second was seen
	closed atomic.Bool
	watch  watcher

	spelling spelling

	// For tests: the clock, a call between a finished temp file and the clock
	// check, changeFraction, and isOurs.
	now        func() time.Time
	beforeMove func(op string)
	changed    func(fs.FileInfo) int64
	isOurs     func(dir string) (bool, error)
}

// Open returns the store on dir, which is made absolute, and makes the directory if it is not
// there. It waits a second at most. What it could not do the first verb does, or fails.
func Open(dir string) (*Store, error) { return openAt(dir, false) }

func openAt(dir string, mustExist bool) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return nil, store.Fail("open", dir, core.ClassOther, fmt.Errorf("%w: it has no directory", store.ErrURL))
	}
	s := &Store{root: root, mustExist: mustExist, now: time.Now, beforeMove: func(string) {}, changed: changeFraction, isOurs: isOurs}
	s.spelling.names, s.spelling.stat = namesIn, os.Stat
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		_ = s.enterRoot()
	}()
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	}
	return s, nil
}

// ClockSteps implements store.SteppingClock: NTP may step a wall clock.
func (s *Store) ClockSteps() (steps bool, why string) {
	return true, "a wall clock stamps the files of a directory"
}

// Orderly implements store.Orderly: it is true on a file system that only this kernel
// writes. There the clock is read right before the one system call that applies a write.
func (s *Store) Orderly() bool { return s.lies(s.isOurs) }

// InMemory implements store.Memory.
func (s *Store) InMemory() bool { return s.lies(isMemory) }

// lies asks of the file system of the directory, or of the one above it if it is not there yet.
func (s *Store) lies(on func(path string) (bool, error)) bool {
	for dir := s.root; ; dir = filepath.Dir(dir) {
		is, err := on(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return is
		}
	}
}

// Dir returns the absolute path of the directory.
func (s *Store) Dir() string { return s.root }

// Get implements store.Store. The stamp is that of the file that was opened, even if
// another has replaced it since.
func (s *Store) Get(ctx context.Context, key string) (store.Object, error) {
	path, err := s.enterToRead(ctx, key)
	if err != nil {
		return store.Object{}, s.fail("get", key, err)
	}
	object, err := s.read(path)
	if err == nil {
		err = s.spelling.check(s.root, key)
	}
	if err := s.done("get", key, absentIfMissing(err)); err != nil {
		return store.Object{}, err
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
	var f *os.File
	err := patiently(func() (err error) {
		f, err = openToRead(path)
		return err
	})
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

// readAll reads at most MaxBody bytes. size is a hint: others may append, and some file systems
// tell none.
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

// Put implements store.Store: it writes a temp file in the same directory and renames
// it. It does not sync. After an error the object is the whole old one or the whole new
// one. If it overwrites, it makes no directory.
func (s *Store) Put(ctx context.Context, key string, body []byte, _ string) error {
	path, err := s.enter(ctx, key)
	if err != nil {
		return s.fail("put", key, err)
	}
	mayMake := !store.IsOverwriting(ctx)
	err = s.retry(func() error {
		temp, err := s.writeTemp(path, body, mayMake, nil)
		if err != nil {
			return err
		}
		return s.move(ctx, temp, path)
	})
	return s.done("put", key, err)
}

// move replaces the file of path by a temp file, and removes that if it cannot.
func (s *Store) move(ctx context.Context, temp, path string) error {
	err := patiently(func() error {
		return rename(temp, path, func() error { return s.mayMove(ctx, "put") })
	})
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// Create implements store.Store: it writes and syncs a temp file, calls link(2), which
// fails if the name is taken, and syncs the directory. After an error that is not
// ErrExists the whole object may be there.
func (s *Store) Create(ctx context.Context, key string, body []byte, _ string) error {
	path, err := s.enterToRead(ctx, key)
	if err != nil {
		return s.fail("create", key, err)
	}
	// A create that loses costs a stat, and no sync.
	if info, err := os.Lstat(path); err == nil {
		return s.done("create", key, taken(info))
	}
	var unsynced []string
	err = s.retry(func() error {
		temp, err := s.writeTemp(path, body, true, &unsynced)
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
	if err == nil {
		err = s.spelling.check(s.root, key)
	}
	return s.done("create", key, err)
}

// Exists implements store.Store.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	path, err := s.enterToRead(ctx, key)
	if err != nil {
		return false, s.fail("exists", key, err)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = regular(info)
	}
	if err == nil {
		err = s.spelling.check(s.root, key)
	}
	absent := errors.Is(absentIfMissing(err), store.ErrAbsent)
	if absent {
		err = nil
	}
	err = s.done("exists", key, err)
	return err == nil && !absent, err
}

// Delete implements store.Store. It also removes the directories that it leaves empty,
// so that no empty directories of a register's versions stay behind.
func (s *Store) Delete(ctx context.Context, key string) error {
	path, err := s.enter(ctx, key)
	if err != nil {
		return s.fail("delete", key, err)
	}
	late := false
	err = patiently(func() error {
		if err := s.mayMove(ctx, "delete"); err != nil {
			late = true
			return err
		}
		return os.Remove(path)
	})
	if late {
		return s.fail("delete", key, err)
	}
	if errors.Is(err, fs.ErrExist) { // a directory that is not empty: no object has this key
		err = store.ErrAbsent
	}
	absent := errors.Is(absentIfMissing(err), store.ErrAbsent)
	if absent {
		err = nil
	}
	if err := s.done("delete", key, err); err != nil || absent {
		return err
	}
	// rmdir refuses a directory that is not empty, so this removes no object. A
	// writer whose directory is removed between its mkdir and its open makes it
	// again (retry).
	for dir := filepath.Dir(path); len(dir) > len(s.root); dir = filepath.Dir(dir) {
		// os.Remove would also unlink a symbolic link to a shared directory.
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || os.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// StampUnit implements store.Store. It is a tick of the kernel's clock, or one second
// while neither the directory nor an object that was read has shown a stamp with a
// fraction (old ext3, HFS+). On FAT, which has no links anyway, it would be two seconds.
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

// enter does the checks with which every verb begins, and returns the object's path.
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
	return s.path(key), s.enterRoot()
}

// enterToRead is enter for a verb whose answer is what it reads.
func (s *Store) enterToRead(ctx context.Context, key string) (path string, err error) {
	if path, err = s.enter(ctx, key); err == nil {
		err = s.checkRoot()
	}
	return path, err
}

// done makes the error of a verb that has asked the file system, or returns nil for nil.
func (s *Store) done(op, key string, err error) error {
	if moved := s.checkRoot(); moved != nil {
		return s.fail(op, key, moved)
	}
	if op == "put" || op == "create" {
		s.learnNonce(key)
	}
	return s.fail(op, key, err)
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
		if runtime.GOOS == "windows" && strings.TrimRight(segment, ". ") != segment {
			return fmt.Errorf("%w: a segment ends with a dot or a space, which Windows drops", store.ErrKey)
		}
	}
	// For Windows alone: drive letters, device names, streams.
	if !filepath.IsLocal(filepath.FromSlash(key)) || runtime.GOOS == "windows" && strings.ContainsAny(key, `:*?"<>|`) {
		return fmt.Errorf("%w: it is no file name here", store.ErrKey)
	}
	return nil
}

func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// mayMove looks at the root and the clock a last time before the one system call that applies
// a write. No code may stand between its return and that call. Only a pause within these few
// instructions is left, and for that there is the fencing token.
//
//	us:    temp file written ── SIGSTOP ═══════ SIGCONT ── mayMove: too late ── temp removed
//	other:                         takes the lease, writes N
//
// Without mayMove, the rename would replace the other's body by our old one.
func (s *Store) mayMove(ctx context.Context, op string) error {
	s.beforeMove(op)
	if err := s.checkRoot(); err != nil {
		return err
	}
	return store.Overdue(ctx, s.now())
}

var (
	errBelow      = errors.New("a directory has this name: a key and another below it cannot both be objects of a local directory")
	errNotRegular = errors.New("something that is neither a file nor a directory has this name")
)

// regular returns an error for what is no regular file. A directory is an absent object.
func regular(info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return store.ErrAbsent
	}
	return errNotRegular
}

// absentIfMissing turns "no such file" into ErrAbsent. Below a file (a/b if a is one)
// there is no file either.
func absentIfMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return store.ErrAbsent
	}
	return err
}

// stamp returns the modification time of a file, and remembers whether this filesystem
// has fractions of a second.
func (s *Store) stamp(info fs.FileInfo) int64 {
	if year := info.ModTime().Year(); year < 1700 || year > 2200 {
		return 0 // nanoseconds cannot count so far
	}
	ns := info.ModTime().UnixNano()
	if !s.fine.Load() && (ns%int64(time.Second) != 0 || s.changed(info) != 0) {
		s.fine.Store(true)
	}
	return ns
}

// fail makes the error of a verb, or returns nil for nil.
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
	case errors.Is(err, errBelow), errors.Is(err, errFolded):
		class = core.ClassNoSuchStore
	case (op == "put" || op == "create") && class != core.ClassUnreachable && s.isBlocked(key):
		// It stays so until a person moves the file that is in the way.
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
