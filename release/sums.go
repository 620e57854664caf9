package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
)

const sumsFile = "SHA256SUMS"

// packWheels copies wheels and the source distribution. All must be of this version.
func (r *release) packWheels() error {
	if r.wheels == "" {
		return nil
	}
	files, err := readDir(r.wheels, 0o644)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !strings.Contains(f.name, "-"+r.version+"-") && !strings.HasSuffix(f.name, "-"+r.version+".tar.gz") {
			return fmt.Errorf("%s is not of version %s", f.name, r.version)
		}
		if err := os.WriteFile(r.path(f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the SHA-256 of every artefact, as sha256sum does.
func (r *release) writeSums() error {
	sums, err := r.sums()
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, s := range sums {
		fmt.Fprintf(&out, "%s  %s\n", s.sum, s.name)
	}
	return os.WriteFile(r.path(sumsFile), []byte(out.String()), 0o644)
}

type sum struct{ name, sum string }

// sums returns the SHA-256 of what there is, by name.
func (r *release) sums() (sums []sum, _ error) {
	files, err := readDir(r.out, 0)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		sums = append(sums, sum{f.name, fmt.Sprintf("%x", sha256.Sum256(f.data))})
	}
	return sums, nil
}
