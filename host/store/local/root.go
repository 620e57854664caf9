package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/capability"
)

// openPatience is how long Open waits for the directory; a dead mount does not answer.
const openPatience = time.Second

// identity is what tells the root directory from another one at its path. Nobody holds it
// open, so that it can be unmounted.
type identity struct {
	info  fs.FileInfo // of the directory: device and inode; and when an entry came or went
	nonce string      // of the store's capability record, or "" while there was none
}

// isUnchanged reports whether info is of the same directory, as far as that tells. The inode of a
// directory that was removed may be used again, also by a file. Then the time differs, and the nonce decides.
func (id *identity) isUnchanged(info fs.FileInfo) bool {
	return info.IsDir() && os.SameFile(id.info, info) && (id.nonce == "" || id.info.ModTime().Equal(info.ModTime()))
}

// enterRoot begins every verb. The first one makes the directory, unless Open could.
func (s *Store) enterRoot() error {
	if s.identity.Load() != nil {
		return nil
	}
	s.rootMu.Lock()
	defer s.rootMu.Unlock()
	if s.identity.Load() != nil {
		return nil
	}
	info, err := s.makeRoot()
	if err != nil {
		return err
	}
	nonce, err := s.readNonce()
	if err == nil {
		s.identity.Store(&identity{info, nonce})
	}
	return err
}

// makeRoot finds the directory or makes it, once.
func (s *Store) makeRoot() (fs.FileInfo, error) {
	info, err := os.Stat(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		if s.mustExist {
			return nil, fmt.Errorf("there is no directory %s, and create=false says to make none: mount it or make it", s.root)
		}
		var unsynced []string
		if err = makeDirs(s.root, "", &unsynced); err == nil { // "": all of them
			err = syncDirs(unsynced)
		}
		if err != nil {
			return nil, err
		}
		info, err = os.Stat(s.root)
	}
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: s.root, Err: syscall.ENOTDIR}
	}
	return info, err
}

// checkRoot returns an error if the path of the store does not lead to the directory that was
// opened. A mount may have gone, or somebody has moved or removed the directory. What is there
// instead lacks our objects, and may have others.
//
//	us:    beat . . . . . . . beat: lands below the mount point, is answered yes
//	other:        unmounts         takes the name on the share
//
// So an answer is believed only if the root is the same before the verb and after it (done): what
// asks while the mount is away, and looks when it is back, finds an empty store. A read looks when
// it begins (enterToRead), a write right before it is applied (mayMove). If the root goes between
// temp file and that, rename(2) and link(2) find none in the other place.
func (s *Store) checkRoot() error {
	was := s.identity.Load()
	if !s.moved.Load() && was.isAt(s.root) {
		return nil
	}
	info, err := os.Stat(s.root)
	switch {
	case err == nil && was.isUnchanged(info) && !s.moved.Load():
		return nil
	case err == nil && info.IsDir():
		if same, err := s.recognize(was, info); same || err != nil {
			return err
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return err
	}
	s.moved.Store(true)
	return fmt.Errorf("%w (%s)", store.ErrMoved, s.root)
}

// recognize reports whether a directory is the one that was opened. What has the nonce of its
// capability record is, wherever it is mounted now. What has not is another one, even with its inode.
func (s *Store) recognize(was *identity, info fs.FileInfo) (bool, error) {
	nonce, err := s.readNonce()
	if err != nil {
		return false, err
	}
	sameFile := os.SameFile(was.info, info)
	if was.nonce != "" && nonce != was.nonce || was.nonce == "" && !sameFile {
		return false, nil
	}
	s.identity.CompareAndSwap(was, &identity{info, nonce})
	if s.moved.Swap(false) || !sameFile {
		s.watch.again()
	}
	return true, nil
}

// learnNonce reads the capability record once there is one. On a store that has none it looks
// after this process's first writes, and then now and then.
func (s *Store) learnNonce(key string) {
	const often, seldom = 16, 16
	was := s.identity.Load()
	if was.nonce != "" {
		return
	}
	if n := s.looks.Add(1); n > often && n%seldom != 0 && key != capability.Key {
		return
	}
	if nonce, _ := s.readNonce(); nonce != "" {
		s.identity.CompareAndSwap(was, &identity{was.info, nonce})
	}
}

// readNonce reads the nonce of the capability record, which is "" while there is none.
func (s *Store) readNonce() (string, error) {
	object, err := s.read(filepath.Join(s.root, filepath.FromSlash(capability.Key)))
	if err = absentIfMissing(err); err != nil && !errors.Is(err, store.ErrAbsent) {
		return "", err
	}
	record, _ := capability.Parse(object.Body)
	return record.Nonce, nil
}
