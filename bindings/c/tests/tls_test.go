//go:build linux

package tests

import (
	"debug/elf"
	"path/filepath"
	"testing"
)

// mostTLS is a fraction of the 1,664 bytes that glibc keeps for all libraries
// that are loaded at run time and ask for static TLS, as Go's do.
const mostTLS = 64

// TestLittleStaticTLS: both libraries, and copies that forked children load, fit
// into one process.
func TestLittleStaticTLS(t *testing.T) {
	for _, lib := range []library{coreLibrary(t), fullLibrary(t)} {
		file, err := elf.Open(filepath.Join(lib.dir, "lib"+lib.name+".so"))
		if err != nil {
			t.Fatal(err)
		}
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_TLS && segment.Memsz > mostTLS {
				t.Errorf("%s needs %d bytes of static TLS, more than %d", lib.name, segment.Memsz, mostTLS)
			}
		}
		file.Close()
	}
}
