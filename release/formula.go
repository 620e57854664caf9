package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/template"
)

// formula is where Homebrew's formula lies, as a template.
const formula = ".github/homebrew/mopslock-host.rb.tmpl"

// writeFormula fills in Homebrew's formula. The template may use {{.Version}}, and
// {{sum "darwin-arm64"}} for the SHA-256 of that system's archive, which is 64 zeros for one
// that this release does not have. SHA256SUMS does not list the formula.
func (r *release) writeFormula() error {
	text, err := os.ReadFile(filepath.Join(r.root, formula))
	if err != nil {
		return err
	}
	sums, err := r.sums()
	if err != nil {
		return err
	}
	of := func(system string) string {
		for _, s := range sums {
			if s.name == r.archive(system)+".tar.gz" {
				return s.sum
			}
		}
		return fmt.Sprintf("%064d", 0)
	}
	t, err := template.New(formula).Funcs(template.FuncMap{"sum": of}).Parse(string(text))
	if err != nil {
		return err
	}
	return create(r.path("mopslock-host.rb"), func(to io.Writer) error { return t.Execute(to, map[string]string{"Version": r.version}) })
}
