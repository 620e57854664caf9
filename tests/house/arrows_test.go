package house

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrow says what the packages of a directory, and of those below it, may
// import. The longest matching directory decides. A path that ends with "/" is
// a prefix. The standard library is free but for the banned.
type arrow struct {
	dir     string
	ours    []string // of our module, without its path
	outside []string
	banned  []string // of the standard library
}

// noIO is what the core's purity forbids: each would let in a clock, a source
// of chance, another goroutine or the world, or 1.3 MB and more of code.
var noIO = []string{
	"os", "os/", "net", "net/", "io/fs", "io/ioutil", "syscall", "unsafe", "runtime", "runtime/", "C",
	"math/rand", "math/rand/", "crypto/", "hash/maphash", "sync", "sync/", "context", "log", "log/", "testing", "testing/",
	"fmt", "reflect", "encoding/json", "encoding/gob", "encoding/xml", "text/", "html/", "go/",
}

// cloudModules are reached through one small package each, so that a Go user
// pays for what he imports.
var arrows = []arrow{
	{dir: "core", banned: noIO},
	{dir: "core/internal/gen"},                                    // a tool: runs at go generate, is linked nowhere
	{dir: "core/wire", banned: append([]string{"time"}, noIO...)}, // structs and nothing else
	{dir: "wasm", ours: []string{"core"}, outside: []string{
		"github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/api",
		"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1",
	}},
	{dir: "wasm/guest", ours: []string{"core"}, banned: []string{"fmt", "os", "time", "strings", "reflect", "encoding/"}},
	{dir: "wasm/internal/gen"}, // a tool
	{dir: "host", ours: []string{"core", "host/store", "host/store/card", "host/store/local", "host/store/mem"}, outside: []string{
		"github.com/google/uuid", "github.com/vmihailenco/msgpack/v5", "golang.org/x/sys/",
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric", // the API: no SDK, no exporter
	}},
	{dir: "host/store", ours: []string{"core", "host/store"}},
	{dir: "host/store/card"}, // text, and nothing else
	{dir: "host/store/local", ours: []string{"core", "host/store"}, outside: []string{
		"github.com/fsnotify/fsnotify", "golang.org/x/sys/",
	}},
	{dir: "host/store/cloud", ours: []string{"core", "host/store"}, outside: []string{
		"gocloud.dev/blob", "gocloud.dev/gcerrors",
	}},
	{dir: "host/store/mem", ours: []string{"core", "host/store", "host/store/cloud"}, outside: []string{
		"gocloud.dev/blob", "gocloud.dev/blob/memblob",
	}},
	{dir: "host/store/s3", ours: []string{"core", "host/store", "host/store/cloud"}, outside: []string{
		"gocloud.dev/blob", "gocloud.dev/blob/s3blob", "github.com/aws/", "golang.org/x/sys/",
	}},
	{dir: "host/store/gs", ours: []string{"core", "host/store", "host/store/cloud"}, outside: []string{
		"gocloud.dev/blob", "gocloud.dev/blob/gcsblob", "gocloud.dev/gcp", "cloud.google.com/go/storage",
		"golang.org/x/oauth2", "golang.org/x/oauth2/", "google.golang.org/api/",
	}},
	{dir: "host/store/azblob", ours: []string{"core", "host/store", "host/store/cloud"}, outside: []string{
		"gocloud.dev/blob", "gocloud.dev/blob/azureblob", "github.com/Azure/",
	}},
	{dir: "host/fence", ours: []string{"core", "host/store"}, outside: []string{"github.com/google/uuid"}},
	{dir: "host/doctor", ours: []string{"core", "host/store", "host/store/card"}, outside: []string{"github.com/google/uuid"}},
	{dir: "host/store/storetest", ours: []string{"core", "host/store"}},
	{dir: "host/trace", ours: []string{"core", "core/wire", "host"}, outside: []string{"github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/msgpack/v5/msgpcode"}},
	{dir: "bindings/c", ours: []string{"core", "host", "host/", "wasm"}},
	{dir: "cmd/mopslock-host", ours: []string{"core", "core/wire", "host", "host/", "wasm", "cmd/mopslock-host/", "tests/explore", "tests/simulate"}, outside: []string{
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/msgpack/v5/msgpcode",
		"golang.org/x/sys/", "golang.org/x/term",
		"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/exporters/prometheus",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/common/expfmt",
	}},
	{dir: "tests", ours: []string{"core", "host", "host/", "wasm", "tests/servers", "tests/servers/"}, outside: []string{
		"golang.org/x/sys/", "golang.org/x/sync/semaphore",
	}},
	{dir: "tests/bench/pictures", outside: []string{"gonum.org/v1/plot", "gonum.org/v1/plot/"}}, // a module of its own
	{dir: "tests/bench/peers", outside: []string{ // likewise
		"github.com/go-redsync/redsync/v4", "github.com/go-redsync/redsync/v4/redis/goredis/v9", "github.com/redis/go-redis/v9",
		"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/v3/concurrency", "go.uber.org/zap",
	}},
	{dir: "tests/servers", ours: []string{"core", "host", "host/", "tests/servers"}, outside: []string{"github.com/Azure/"}},
	{dir: "tests/servers/proxy"},                                          // it knows protocols, and nobody of ours
	{dir: "tests/explore", ours: []string{"core", "tests/explore/check"}}, // as pure as what it explores
	{dir: "tests/explore/check", ours: []string{"core"}},
	{dir: "tests/soak", ours: []string{"core", "host"}, outside: []string{
		"go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/sdk/metric/metricdata",
	}},
	{dir: "tests/simulate", ours: []string{"core", "tests/explore/check"}},
	{dir: "tests/scale", ours: []string{"core", "host/doctor"}}, // whose prices and quantiles it takes
}

// TestArrows: core ← host ← cmd, and never back.
func TestArrows(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue // tests may bring oracles and drivers; TestTestArrows has their rule
		}
		a := arrowOf(s.dir())
		if a == nil {
			t.Errorf("%s: no arrow says what %s may import", s.path, s.dir())
			continue
		}
		used[a.dir] = true
		for imported, spec := range s.imports() {
			if why := a.refuses(imported); why != "" {
				t.Errorf("%s: imports %s: %s", s.at(spec), imported, why)
			}
		}
	}
	for _, a := range arrows {
		if !used[a.dir] {
			t.Errorf("the arrow of %s is of a directory without sources: remove it", a.dir)
		}
	}
}

// TestTestArrows: a test may import what it likes from outside, but not against
// the arrows inside: the core is tested without a host, the host without a cmd.
func TestTestArrows(t *testing.T) {
	for _, s := range sources(t) {
		for imported, spec := range s.imports() {
			inside, ours := strings.CutPrefix(imported, module+"/")
			switch {
			case !ours || !s.test:
			case within(s.dir(), "core") && !within(inside, "core"),
				within(s.dir(), "host") && within(inside, "cmd"):
				t.Errorf("%s: imports %s against the arrows", s.at(spec), imported)
			}
		}
	}
}

func arrowOf(dir string) *arrow {
	var best *arrow
	for i := range arrows {
		if within(dir, arrows[i].dir) && (best == nil || len(arrows[i].dir) > len(best.dir)) {
			best = &arrows[i]
		}
	}
	return best
}

// refuses says why a package below a.dir may not import a path, or "".
func (a *arrow) refuses(imported string) string {
	if inside, ours := strings.CutPrefix(imported, module+"/"); ours {
		if matches(inside, a.ours) {
			return ""
		}
		return a.dir + " may import of ours only " + strings.Join(a.ours, ", ")
	}
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case strings.Contains(first, "."): // outside the standard library
		if matches(imported, a.outside) {
			return ""
		}
		return a.dir + " may import from outside only " + strings.Join(a.outside, ", ")
	case matches(imported, a.banned):
		return "banned in " + a.dir
	}
	return ""
}

func matches(imported string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if strings.HasSuffix(pattern, "/") {
			return strings.HasPrefix(imported, pattern)
		}
		return imported == pattern
	})
}

// TestCoreStandsOnStd asks the go command what core is linked with in the end.
// Some of the standard library comes along with strings and time (sync) and
// with encoding/binary (reflect); these here come only if somebody uses them.
func TestCoreStandsOnStd(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", module+"/core")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	never := []string{"os", "os/", "net", "net/", "fmt", "encoding/json", "log", "log/", "context", "math/rand", "math/rand/", "crypto/", "testing"}
	for line := range strings.Lines(string(out)) {
		imported, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case standard == "false" && imported != module+"/core":
			t.Errorf("core depends on %s, which is not in the standard library", imported)
		case matches(imported, never):
			t.Errorf("core depends on %s by way of another package", imported)
		}
	}
}

// TestStoresAreOptional: package host brings a directory and memory, and no
// cloud's SDK.
func TestStoresAreOptional(t *testing.T) {
	list := exec.Command("go", "list", "-deps", module+"/host")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	clouds := []string{
		"gocloud.dev/blob/s3blob", "gocloud.dev/blob/gcsblob", "gocloud.dev/blob/azureblob", "gocloud.dev/blob/fileblob",
		"github.com/aws/", "github.com/Azure/", "cloud.google.com/go/storage", "github.com/tetratelabs/",
		"go.opentelemetry.io/otel/exporters/", "github.com/prometheus/",
	}
	for line := range strings.Lines(string(out)) {
		if imported := strings.TrimSpace(line); matches(imported, clouds) {
			t.Errorf("host depends on %s", imported)
		}
	}
}
