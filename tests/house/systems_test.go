package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// crossed are the packages that must build for other systems without cgo: everything but the
// C library and the clouds' SDKs, which have no file for one system alone. No file of ours is
// for one processor alone.
var crossed = []string{
	"./core/...", "./host", "./host/limiter", "./host/store", "./host/store/local", "./host/fence", "./host/trace", "./host/doctor", "./wasm/...", "./cmd/...",
}

// TestOtherSystems: macOS and Windows know all that our files use. It reads the sources of what we
// import and compiles nothing, which takes seconds where go vet takes minutes.
func TestOtherSystems(t *testing.T) {
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		t.Run(system, func(t *testing.T) {
			goos, arch, _ := strings.Cut(system, "/")
			found, err := packages.Load(&packages.Config{
				Mode:       packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
				Dir:        root,
				Env:        append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch),
				BuildFlags: []string{"-tags", "mopslock_nocloud"},
				Tests:      true,
				ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
					parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
					if parsed != nil && !strings.HasPrefix(name, here) {
						for _, d := range parsed.Decls {
							if f, ok := d.(*ast.FuncDecl); ok {
								f.Body = nil // what others' functions do is no question here
							}
						}
					}
					return parsed, err
				},
			}, crossed...)
			if err != nil || len(found) == 0 {
				t.Fatalf("%d packages: %v", len(found), err)
			}
			packages.Visit(found, nil, func(p *packages.Package) {
				if !strings.HasPrefix(p.PkgPath, module) || strings.HasSuffix(p.PkgPath, ".test") {
					return // others', or a main function that go test writes
				}
				for _, e := range p.Errors {
					t.Error(e)
				}
			})
		})
	}
}
