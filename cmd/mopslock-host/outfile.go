package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

// outFile is a file that a flag names, or nil.
type outFile struct {
	flag string
	path string
}

// createFile tries the path before the work, so that a bad one is a usage error
// and not a surprise after minutes. A file that exists stays as it is until there
// is something to write: a search that is interrupted writes nothing.
func createFile(flag, path string) (*outFile, error) {
	if path == "" {
		return nil, nil
	}
	if there, err := os.Stat(path); err == nil && !there.Mode().IsRegular() && !there.IsDir() {
		return &outFile{flag, path}, nil // it may be a pipe, which can be opened only once
	}
	_, err := os.Lstat(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, exit.Usagef("--%s: %v", flag, err)
	}
	_ = file.Close()
	if fresh {
		_ = os.Remove(path)
	}
	return &outFile{flag, path}, nil
}

// fill writes the file. On nil it does nothing.
func (o *outFile) fill(write func(io.Writer) error) error {
	if o == nil {
		return nil
	}
	var text bytes.Buffer
	err := write(&text)
	if err == nil {
		err = os.WriteFile(o.path, text.Bytes(), 0o666)
	}
	if err != nil {
		return exit.Usagef("--%s: %v", o.flag, err)
	}
	return nil
}
