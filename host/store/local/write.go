package local

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/mopslock/mopslock/host/store"
)

// The steps of a write, in their order: retry, writeTemp (openTemp, makeDirs,
// fillTemp), mayMove, and then rename, or for a Create link and syncDir.

// retry repeats a write, from its temp file on, if its directory was removed meanwhile.
// It also does so if its temp file was, by a List on a machine whose clock is a day ahead.
//
//	us:    mkdir N ──────────── open N/temp: ENOENT ── mkdir N ── …
//	other:           rmdir N
func (s *Store) retry(write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == maxTries {
			return err
		}
	}
}

// writeTemp makes the complete file of a body beside path: openTemp and fillTemp.
func (s *Store) writeTemp(path string, body []byte, mayMake bool, unsynced *[]string) (temp string, err error) {
	f, err := s.openTemp(path, mayMake, unsynced)
	if err != nil {
		return "", err
	}
	return f.Name(), fillTemp(f, unsynced, func() error {
		_, err := f.Write(body)
		return err
	})
}

// openTemp makes an empty file beside path. It also makes missing directories, if it may:
// otherwise an object was there, and is ErrAbsent without them.
func (s *Store) openTemp(path string, mayMake bool, unsynced *[]string) (*os.File, error) {
	dir := filepath.Dir(path)
	f, err := createTemp(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if !mayMake {
			return nil, store.ErrAbsent
		}
		if err := s.checkRoot(); err != nil {
			return nil, err
		}
		if err := makeDirs(dir, s.root, unsynced); err != nil {
			return nil, err
		}
		f, err = createTemp(dir)
	}
	return f, err
}

// fillTemp lets write fill the file, and closes it. After an error it removes the file.
// If unsynced is not nil, it syncs the file and then the directories in which new ones
// were made; unsynced keeps these from one try to the next.
func fillTemp(f *os.File, unsynced *[]string, write func() error) error {
	err := write()
	if err == nil && unsynced != nil {
		err = f.Sync()
	}
	if errClose := f.Close(); err == nil {
		err = errClose
	}
	if err == nil && unsynced != nil {
		err = syncDirs(*unsynced)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// createTemp is os.CreateTemp with the mode of an ordinary file: other users'
// processes must be able to read the object.
func createTemp(dir string) (*os.File, error) {
	for {
		name := tempPrefix + strconv.FormatUint(rand.Uint64(), 36)
		f, err := os.OpenFile(dir+string(filepath.Separator)+name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) { // 2^64 names: this ends
			return f, err
		}
	}
}

// makeDirs makes dir and the missing directories above it, up to top, which it does not make.
// It appends to unsynced, unless nil, the directory in which each was made. If another process
// made a directory a moment ago, that process syncs it.
func makeDirs(dir, top string, unsynced *[]string) error {
	up := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrNotExist) && up != top && up != dir {
		if err := makeDirs(up, top, unsynced); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o777)
	}
	if errors.Is(err, fs.ErrExist) { // if it is a file, opening the temp file says so
		return nil
	}
	if err == nil && unsynced != nil {
		*unsynced = append(*unsynced, up)
	}
	return err
}

// syncDirs syncs directories of which some may have been removed again.
func syncDirs(dirs []string) error {
	for _, dir := range dirs {
		if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncDir syncs dir, so that the names in it survive a crash of the machine.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // the filesystem has no such sync
	}
	return err
}

// patiently repeats what Windows refuses while another process has the file open, as a reader has for a moment.
// Where it is something else, such as a missing permission, that costs a second.
func patiently(do func() error) error {
	const tries, pause = 100, 10 * time.Millisecond
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || !isBusy(err) {
			return err
		}
		time.Sleep(pause)
	}
}

// link gives temp the name path, or says what has the name.
func link(temp, path string) error {
	err := os.Link(temp, path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		theirs, errTheirs := os.Lstat(path)
		ours, errOurs := os.Lstat(temp)
		if errTheirs != nil {
			return store.ErrExists // it was there, and has been deleted since
		}
		if errOurs == nil && os.SameFile(theirs, ours) {
			return nil // NFS sent the link again after a lost answer
		}
		return taken(theirs)
	case errors.Is(err, errors.ErrUnsupported), hasNoLinks(err):
		// We have just made a file in that directory, so it is the link that the
		// filesystem refuses (FAT, some FUSE and SMB mounts).
		return fmt.Errorf("%w: this filesystem has no hard links: %w", errors.ErrUnsupported, err)
	}
	return err
}

// taken returns why a Create cannot use a name, by the info of what has it.
func taken(info fs.FileInfo) error {
	if info.IsDir() {
		return errBelow
	}
	return store.ErrExists
}

// isBlocked reports whether there can be no file of a key: a directory has its name, or a file the name of a directory
// above it. Systems have many errors for that, and use these for other things too.
func (s *Store) isBlocked(key string) bool {
	path := s.path(key)
	if info, err := os.Stat(path); err == nil {
		return info.IsDir()
	}
	for path = filepath.Dir(path); len(path) > len(s.root); path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil {
			return !info.IsDir()
		}
	}
	return false
}
