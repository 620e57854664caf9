package capture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// File is a file for what a command prints, until that is stored. The file has no name, so that
// nothing is left if we are killed; Keep gives it one. After Seal it is a host.Source.
type File struct {
	file *os.File
	name string // "" if it has none

	mu     sync.Mutex
	size   int64 // bytes written
	sealed bool
	err    error // the first of writing
}

// NewFile makes an empty file in TMPDIR that only this user can read.
func NewFile() (*File, error) {
	if file, err := openNameless(os.TempDir()); err == nil {
		return &File{file: file}, nil
	}
	file, err := os.CreateTemp("", fileNames)
	if err != nil {
		return nil, err
	}
	return &File{file: file, name: dropName(file, fileNames)}, nil
}

const fileNames = "mopslock-*.out"

// dropName removes the name of an open file. Windows cannot remove an open file, and there dropName
// returns the name. The others that it can remove were left by processes that were killed.
func dropName(file *os.File, names string) string {
	name := file.Name()
	if os.Remove(name) == nil {
		return ""
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), names))
	for _, other := range left {
		_ = os.Remove(other)
	}
	return name
}

// Take appends a text. After the first error it drops all text, and the command goes on: its exit
// status still counts.
func (f *File) Take(text []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sealed || f.err != nil {
		return
	}
	n, err := f.file.Write(text)
	f.size += int64(n)
	if err != nil {
		f.err = fmt.Errorf("after %d bytes: %w", f.size, err) // err names the file
		_ = f.file.Truncate(0)                                // others may need the space
	}
}

// Seal drops all later text. Its error says why the file is not complete.
func (f *File) Seal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sealed = true
	return f.err
}

// Size is how many bytes the file has, once it is sealed.
func (f *File) Size() int64 { return f.size }

// Open implements host.Source.
func (f *File) Open() (io.ReadCloser, int64, error) {
	return io.NopCloser(io.NewSectionReader(f.file, 0, f.size)), f.size, nil
}

// Keep gives the file a name, which stays, and returns that. If the file itself cannot have a name,
// it names a copy.
func (f *File) Keep() (string, error) {
	name, err := filepath.Abs(filepath.Join(os.TempDir(), "mopslock-"+strconv.FormatUint(rand.Uint64(), 36)+".result"))
	if err != nil || nameFile(f.file, name) == nil {
		return name, err
	}
	kept, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(kept, io.NewSectionReader(f.file, 0, f.size))
	if err = errors.Join(err, kept.Close()); err != nil {
		_ = os.Remove(name)
	}
	return name, err
}

// Close closes the file, and removes the name that the system made it keep.
func (f *File) Close() {
	_ = f.file.Close()
	if f.name != "" {
		_ = os.Remove(f.name)
	}
}
