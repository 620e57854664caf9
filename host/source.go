package host

import (
	"bytes"
	"io"
	"os"
)

// Source is where the bytes of a result are read from. Open may be called several
// times, one after the other, since a transfer that failed is made again from the
// beginning; size is -1 if it is not known. An error of Open or Read is the
// source's own fault: it ends the invocation, and is not tried again. Close may
// be called while a Read blocks, and should end it.
type Source interface {
	Open() (body io.ReadCloser, size int64, err error)
}

// Bytes is a Source of bytes in memory, which must not change any more.
func Bytes(b []byte) Source { return bytesSource(b) }

type bytesSource []byte

// Open implements Source.
func (b bytesSource) Open() (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// File is a Source of a file, which must stay as it is until the invocation is over.
func File(path string) Source { return fileSource(path) }

type fileSource string

// Open implements Source.
func (f fileSource) Open() (io.ReadCloser, int64, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return file, -1, nil
	}
	return file, info.Size(), nil
}
