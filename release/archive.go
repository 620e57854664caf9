package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one entry of an archive: a file, a symbolic link if link is not "", or a directory
// if its name ends in a slash.
type file struct {
	name string
	data []byte
	mode int64
	link string
}

// read returns a file of the disk under another name.
func read(name, from string, mode int64) (file, error) {
	data, err := os.ReadFile(from)
	return file{name: name, data: data, mode: mode}, err
}

// under returns files below a directory of an archive, by name.
func under(dir string, files []file) []file {
	files = slices.Clone(files)
	for i := range files {
		files[i].name = dir + "/" + files[i].name
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

func writeTar(to io.Writer, files []file, at time.Time) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Linkname: f.link, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		switch {
		case f.link != "":
			header.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}

func writeTarGz(name string, files []file, at time.Time) error {
	return create(name, func(to io.Writer) error {
		zipped, err := gzip.NewWriterLevel(to, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(zipped, files, at); err != nil {
			return err
		}
		return zipped.Close()
	})
}

func writeZip(name string, files []file, at time.Time) error {
	return create(name, func(to io.Writer) error {
		w := zip.NewWriter(to)
		for _, f := range files {
			header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at.UTC()}
			header.SetMode(os.FileMode(f.mode))
			entry, err := w.CreateHeader(header)
			if err != nil {
				return err
			}
			if _, err := entry.Write(f.data); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

// zipped returns data as gzip has it, without a name and a time.
func zipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// create makes a file of what write writes.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// readDir returns the files of a directory by name, with this mode.
func readDir(dir string, mode int64) (files []file, _ error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		f, err := read(entry.Name(), filepath.Join(dir, entry.Name()), mode)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}
