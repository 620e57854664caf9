package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mopslock/mopslock/host/store"
)

// errFolded is why an object cannot be used: its key differs only in case from that of the file.
var errFolded = errors.New("this file system takes upper and lower case for the same, and the name is there in another spelling; use that spelling, or another name")

// spelling tells keys apart that differ only in case, on a file system that does not: macOS, Windows, SMB, FAT. Without
// it two names would be one lease, and the result of one would be taken for that of the other.
//
//	us:    N/v/2 created ──────────────── get N/v/2: the file is n/v/2, errFolded
//	other:                 n acquired …
//
// Both names stay one register, so neither is ever granted beside the other: one is refused.
type spelling struct {
	folds atomic.Int32 // unknown, foldsNot, folds
	names func(dir string) ([]string, error)
	stat  func(path string) (fs.FileInfo, error)

	mu   sync.Mutex
	seen map[string]fs.FileInfo // directories whose paths are spelled as the keys say, by their paths
}

const (
	unknown = iota
	foldsNot
	folds
)

// check returns an error if the file of a key, which was just there, has it in another spelling.
func (sp *spelling) check(root, key string) error {
	if sp.folds.Load() == foldsNot || !sp.isFolding(root, key) {
		return nil
	}
	dir, below := root, strings.Split(key, "/")
	parent := filepath.Join(root, filepath.FromSlash(strings.Join(below[:len(below)-1], "/")))
	info, err := os.Stat(parent)
	if err != nil {
		return err
	}
	if sp.hasSeen(parent, info) {
		dir, below = parent, below[len(below)-1:]
	}
	for _, segment := range below {
		names, err := sp.names(dir)
		if err != nil {
			return err
		}
		other := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, segment) })
		if other >= 0 && !slices.Contains(names, segment) {
			return fmt.Errorf("%w (%s)", errFolded, filepath.Join(dir, names[other]))
		}
		dir = filepath.Join(dir, segment)
	}
	sp.see(parent, info)
	return nil
}

func (sp *spelling) hasSeen(dir string, info fs.FileInfo) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	was := sp.seen[dir]
	return was != nil && os.SameFile(was, info)
}

// maxSeen bounds the directories that are remembered.
const maxSeen = 10_000

func (sp *spelling) see(dir string, info fs.FileInfo) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.seen == nil || len(sp.seen) >= maxSeen {
		sp.seen = map[string]fs.FileInfo{}
	}
	sp.seen[dir] = info
}

// isFolding finds out whether the file of a key has other names. A key without letters of ASCII does not tell: of
// others each file system knows another case. Neither does a file that is replaced or removed meanwhile.
func (sp *spelling) isFolding(root, key string) bool {
	if sp.folds.Load() == folds {
		return true
	}
	swapped := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r ^ ' '
		}
		return r
	}, key)
	if swapped == key {
		return false
	}
	path := filepath.Join(root, filepath.FromSlash(key))
	info, err := sp.stat(path)
	if err != nil {
		return false
	}
	other, err := sp.stat(filepath.Join(root, filepath.FromSlash(swapped)))
	switch {
	case err == nil && os.SameFile(info, other):
		sp.folds.Store(folds)
	case err == nil || errors.Is(absentIfMissing(err), store.ErrAbsent):
		if again, err := sp.stat(path); err == nil && os.SameFile(info, again) {
			sp.folds.Store(foldsNot)
		}
	}
	return sp.folds.Load() == folds
}

// namesIn are the names in a directory.
func namesIn(dir string) (names []string, err error) {
	err = patiently(func() error {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer d.Close()
		names, err = d.Readdirnames(-1)
		return err
	})
	return names, err
}
