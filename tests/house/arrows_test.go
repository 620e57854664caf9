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

// arrows are all of them. Each cloud's modules are reached through one small
// package, so that a Go program links only the clouds that it imports.
var arrows = []arrow{
	{dir: "core", ours: []string{"core/internal/octets", "core/internal/jsontext"}, banned: noIO},
	{dir: "core/internal/octets", banned: noIO},
	{dir: "core/internal/jsontext", ours: []string{"core/internal/octets"}, banned: noIO},
	{dir: "core/internal/base", ours: []string{"core", "core/internal/octets"}, banned: noIO},
	{dir: "core/internal/alarms", ours: []string{"core", "core/internal/base"}, banned: noIO},
	{dir: "core/internal/outbox", ours: []string{"core", "core/internal/alarms", "core/internal/base"}, banned: noIO},
	{dir: "core/internal/lockfile", ours: []string{"core", "core/internal/base", "core/internal/jsontext"}, banned: noIO},
	{dir: "core/internal/lastwriter", ours: []string{"core", "core/internal/base", "core/internal/lockfile"}, banned: noIO},
	{dir: "core/internal/register", ours: []string{
		"core", "core/internal/base", "core/internal/jsontext", "core/internal/lockfile", "core/internal/octets",
	}, banned: noIO},
	{dir: "core/internal/strict", ours: []string{"core", "core/internal/base", "core/internal/jsontext", "core/internal/register"}, banned: noIO},
	{dir: "core/internal/semaphore", ours: []string{
		"core", "core/internal/base", "core/internal/jsontext", "core/internal/octets", "core/internal/register",
	}, banned: noIO},
	{dir: "core/internal/bridge", ours: []string{
		"core", "core/internal/base", "core/internal/lastwriter", "core/internal/strict",
	}, banned: noIO},
	{dir: "core/internal/invocation", ours: []string{
		"core", "core/internal/base", "core/internal/bridge", "core/internal/lastwriter", "core/internal/lockfile", "core/internal/register", "core/internal/strict",
	}, banned: noIO},
	{dir: "core/internal/resolve", ours: []string{"core", "core/internal/base", "core/internal/jsontext", "core/internal/octets"}, banned: noIO},
	{dir: "core/internal/single", ours: []string{"core", "core/internal/"}, banned: noIO},
	{dir: "core/client", ours: []string{"core", "core/internal/"}, banned: noIO},
	{dir: "core/buckets", ours: []string{"core", "core/internal/base", "core/internal/octets"}, banned: noIO},
	{dir: "core/machines", ours: []string{"core", "core/", "core/internal/"}, banned: noIO},
	{dir: "core/internal/gen"},                                    // a tool: runs at go generate, is linked nowhere
	{dir: "core/wire", banned: append([]string{"time"}, noIO...)}, // structs and nothing else
	{dir: "wasm", ours: []string{"core", "core/machines"}, outside: []string{
		"github.com/tetratelabs/wazero", "github.com/tetratelabs/wazero/api",
		"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1",
	}},
	{dir: "wasm/guest", ours: []string{"core", "core/machines"}, banned: []string{"fmt", "os", "time", "strings", "reflect", "encoding/"}},
	{dir: "wasm/internal/gen"}, // a tool
	{dir: "host", ours: []string{"core", "core/machines", "host/internal/", "host/store", "host/store/capability", "host/store/local"}, outside: []string{
		"github.com/google/uuid", "go.opentelemetry.io/otel/metric",
	}},
	{dir: "host/internal/clock", ours: []string{"core"}, outside: []string{"golang.org/x/sys/"}},
	{dir: "host/internal/telemetry", ours: []string{"core", "core/machines", "host/store"}, outside: []string{
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric", // the API: no SDK, no exporter
	}},
	{dir: "host/limiter", ours: []string{"core", "core/buckets"}},                                            // it counts in one process, without a store
	{dir: "host/store", ours: []string{"core", "host/store"}, outside: []string{"golang.org/x/sys/windows"}}, // errors' numbers
	{dir: "host/store/capability"}, // text, and nothing else
	{dir: "host/store/local", ours: []string{"core", "host/store", "host/store/capability"}, outside: []string{
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
	{dir: "host/doctor", ours: []string{"core", "host/store", "host/store/capability"}, outside: []string{"github.com/google/uuid"}},
	{dir: "host/store/storetest", ours: []string{"core", "host/store"}},
	{dir: "host/trace", ours: []string{"core", "core/wire", "host"}, outside: []string{"github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/msgpack/v5/msgpcode"}},
	{dir: "host/keep", ours: []string{"core", "core/wire", "host", "host/fence", "host/internal/clock", "host/store"}, outside: []string{
		"github.com/vmihailenco/msgpack/v5", "golang.org/x/sys/",
	}},
	{dir: "bindings/c", ours: []string{"core", "core/machines"}},
	{dir: "cmd/mopslock-host", ours: []string{"core", "core/machines", "core/wire", "host", "host/", "wasm", "cmd/mopslock-host/", "tests/explore", "tests/simulate"}, outside: []string{
		"github.com/spf13/cobra", "github.com/spf13/cobra/doc", "github.com/spf13/pflag", "golang.org/x/term", // doc only with the tag mopslock_pages
	}},
	{dir: "cmd/mopslock-host/internal/bench", ours: []string{"core", "host", "host/doctor", "host/store"}},
	{dir: "cmd/mopslock-host/internal/capture", outside: []string{"golang.org/x/sys/"}},
	{dir: "cmd/mopslock-host/internal/child", outside: []string{"golang.org/x/sys/"}},
	{dir: "cmd/mopslock-host/internal/console", ours: []string{"host", "cmd/mopslock-host/internal/report"}, outside: []string{"golang.org/x/term"}},
	{dir: "cmd/mopslock-host/internal/engine", ours: []string{"core", "host", "wasm"}},
	{dir: "cmd/mopslock-host/internal/exit", ours: []string{"core", "host", "host/store", "cmd/mopslock-host/internal/child", "cmd/mopslock-host/internal/report"}},
	{dir: "cmd/mopslock-host/internal/memo", ours: []string{"host", "host/store", "cmd/mopslock-host/internal/child", "cmd/mopslock-host/internal/exit"}, outside: []string{"github.com/vmihailenco/msgpack/v5"}},
	{dir: "cmd/mopslock-host/internal/messages", ours: []string{"core", "core/wire", "host/trace"}, outside: []string{
		"github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/msgpack/v5/msgpcode",
	}},
	{dir: "cmd/mopslock-host/internal/metrics", ours: []string{"host", "host/keep"}, outside: []string{
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/sdk/metric/metricdata", "go.opentelemetry.io/otel/exporters/prometheus",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/common/expfmt",
	}},
	{dir: "cmd/mopslock-host/internal/recording", ours: []string{"host", "host/trace"}},
	{dir: "cmd/mopslock-host/internal/report", ours: []string{"core", "host", "host/doctor", "host/store"}},
	{dir: "cmd/mopslock-host/internal/supervise", ours: []string{"core", "host", "cmd/mopslock-host/internal/child", "cmd/mopslock-host/internal/exit"}},
	{dir: "release", outside: []string{ // a module of its own
		"github.com/CycloneDX/cyclonedx-go", "github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin", "github.com/google/go-containerregistry/pkg/v1", "github.com/google/go-containerregistry/pkg/v1/",
		"github.com/goreleaser/nfpm/v2", "github.com/goreleaser/nfpm/v2/", "github.com/rs/zerolog", "golang.org/x/crypto/x509roots/fallback/bundle",
	}},
	{dir: "tests", ours: []string{"core", "core/machines", "host", "host/", "wasm", "tests/servers", "tests/servers/"}, outside: []string{
		"golang.org/x/sys/", "golang.org/x/sync/semaphore",
	}},
	{dir: "tests/bench/pictures", outside: []string{"gonum.org/v1/plot", "gonum.org/v1/plot/"}}, // a module of its own
	{dir: "tests/bench/peers", outside: []string{ // likewise
		"github.com/go-redsync/redsync/v4", "github.com/go-redsync/redsync/v4/redis/goredis/v9", "github.com/redis/go-redis/v9",
		"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/v3/concurrency", "go.uber.org/zap",
	}},
	{dir: "tests/servers", ours: []string{"core", "host", "host/", "tests/servers"}, outside: []string{"github.com/Azure/"}},
	{dir: "tests/servers/proxy"},                 // it knows protocols, and no package of ours
	{dir: "tests/world", ours: []string{"core"}}, // as pure as what lives in it
	{dir: "tests/explore", ours: []string{"core", "core/buckets", "core/machines", "tests/explore/check", "tests/world"}}, // likewise
	{dir: "tests/explore/check", ours: []string{"core"}},
	{dir: "tests/soak", ours: []string{"core", "host"}, outside: []string{
		"go.opentelemetry.io/otel/sdk/metric", "go.opentelemetry.io/otel/sdk/metric/metricdata",
	}},
	{dir: "tests/simulate", ours: []string{"core", "core/machines", "tests/explore/check", "tests/world"}},
	{dir: "tests/scale", ours: []string{"core", "core/machines", "host/doctor", "tests/world"}}, // whose prices and quantiles it takes
}

// models are what tests of core take from outside it.
var models = []string{"tests/world", "tests/explore/check"}

// TestArrows: core ← host ← cmd, and never back. A test may import what it likes from
// outside, oracles and drivers, but not against the arrows inside: the core is tested without
// a host, the host without a cmd. What a client lives in knows core alone, and its tests as well.
func TestArrows(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		a := arrowOf(s.dir())
		if a == nil && !s.test {
			t.Errorf("%s: no arrow says what %s may import", s.path, s.dir())
			continue
		}
		for imported, spec := range s.imports() {
			inside, ours := strings.CutPrefix(imported, module+"/")
			switch {
			case !s.test:
				used[a.dir] = true
				if why := a.refuses(imported); why != "" {
					t.Errorf("%s: imports %s: %s", s.at(spec), imported, why)
				}
			case ours && (within(s.dir(), "core") && !within(inside, "core") && !slices.Contains(models, inside) || within(s.dir(), "host") && within(inside, "cmd")):
				t.Errorf("%s: imports %s against the arrows", s.at(spec), imported)
			}
		}
	}
	for _, a := range arrows {
		if !used[a.dir] {
			t.Errorf("the arrow of %s is of a directory whose sources import nothing: remove it", a.dir)
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

// TestLinked asks the go command what is linked in the end. The core uses the standard library
// alone, and never the packages of this list: they would let the world in, or are over a megabyte
// each in a WASM guest. Package host links these modules and no others: every store but a
// directory is an import of its own.
func TestLinked(t *testing.T) {
	linked := func(of, form string) []string {
		list := exec.Command("go", "list", "-deps", "-f", form, module+"/"+of)
		list.Dir = root
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		return slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	}
	never := []string{
		"os", "os/", "net", "net/", "fmt", "reflect", "encoding/json", "encoding/binary", "log", "log/", "context",
		"math/rand", "math/rand/", "crypto/", "testing",
	}
	for _, imported := range linked("core/machines", "{{.ImportPath}}") {
		if first, _, _ := strings.Cut(imported, "/"); !strings.HasPrefix(imported, module+"/core") && strings.Contains(first, ".") || matches(imported, never) {
			t.Errorf("core depends on %s", imported)
		}
	}
	want := []string{
		"github.com/cespare/xxhash/v2", "github.com/fsnotify/fsnotify", "github.com/google/uuid", module,
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "golang.org/x/sys",
	}
	if got := linked("host", "{{with .Module}}{{.Path}}{{end}}"); !slices.Equal(got, want) {
		t.Errorf("host links the modules\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
