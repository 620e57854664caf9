//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// While it is written a spool is in no directory. Kept, it is there whole, be it itself or a copy.
func TestSpoolHasNoNameUnlessKept(t *testing.T) {
	for kind, open := range map[string]func() (*spool, error){
		"nameless": newSpool,
		"removed": func() (*spool, error) {
			file, err := os.CreateTemp("", spoolNames)
			if err != nil {
				return nil, err
			}
			return &spool{file: file, name: dropName(file, spoolNames)}, nil
		},
	} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			names := func() []string {
				found, _ := filepath.Glob(filepath.Join(dir, "*"))
				return found
			}
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			s.take([]byte("half "))
			if found := names(); len(found) > 0 {
				t.Errorf("before it is kept: %q", found)
			}
			s.take([]byte("and half"))
			if err := s.seal(); err != nil {
				t.Fatal(err)
			}
			kept, err := s.keep()
			if err != nil {
				t.Fatal(err)
			}
			s.end()
			text, err := os.ReadFile(kept)
			if found := names(); err != nil || string(text) != "half and half" || len(found) != 1 || found[0] != kept {
				t.Errorf("kept in %s: %q, %v; in the directory: %q", kept, text, err, found)
			}
		})
	}
}
