//go:build unix

package capture

import (
	"os"
	"path/filepath"
	"testing"
)

// While it is written the file is in no directory. Once kept it is there, complete, itself or as a copy.
func TestFileHasNoNameUnlessKept(t *testing.T) {
	for kind, open := range map[string]func() (*File, error){
		"nameless": NewFile,
		"removed": func() (*File, error) {
			file, err := os.CreateTemp("", fileNames)
			if err != nil {
				return nil, err
			}
			return &File{file: file, name: dropName(file, fileNames)}, nil
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
			s.Take([]byte("half "))
			if found := names(); len(found) > 0 {
				t.Errorf("before it is kept: %q", found)
			}
			s.Take([]byte("and half"))
			if err := s.Seal(); err != nil {
				t.Fatal(err)
			}
			kept, err := s.Keep()
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			text, err := os.ReadFile(kept)
			if found := names(); err != nil || string(text) != "half and half" || len(found) != 1 || found[0] != kept {
				t.Errorf("kept in %s: %q, %v; in the directory: %q", kept, text, err, found)
			}
		})
	}
}
