package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// inRealTime are the tests that may wait as they like: they show processes and servers at
// work, and assert nothing about how long that takes. Benchmarks measure time.
var inRealTime = []string{
	"tests/stress", "tests/servers", "tests/soak", "tests/bench", "bindings/python/tests/stress",
}

// simulated are files whose waits are not the tests' own: bubbles of testing/synctest call them, an
// example shows them, or a test writes them down as a program and starts it.
var simulated = []string{
	"core/machines/example_test.go", "host/anyorder_test.go", "host/fake_test.go", "host/fakestore_test.go", "host/fence/fake_test.go", "host/invoke_test.go", "host/transfer_test.go",
	"cmd/mopslock-host/internal/child/helper_test.go", "bindings/python/tests/test_api_exit.py", "bindings/python/tests/test_invoke.py",
}

// TestNoRealTime: elsewhere a test waits by the clock in one function alone, which polls
// for an event: eventually in Go, until in Python. A minute ends a test that hangs. All other time is simulated
// (testing/synctest, the machines' own clock, Python's fake clock). Otherwise a test would be slow where the
// machine is fast, and fail where it is slow.
func TestNoRealTime(t *testing.T) {
	function := regexp.MustCompile(`^(?:func (?:\([^)]*\) )?|\s*(?:async )?def )(\w+)\(`)
	waits := regexp.MustCompile(`\btime\.(Sleep|After|sleep)\(`)
	for _, name := range tracked(t) {
		free := func(dir string) bool { return within(path.Dir(name), dir) }
		goTest := strings.HasSuffix(name, "_test.go")
		if !goTest && !(strings.HasSuffix(name, ".py") && pythonTest(name)) || slices.Contains(simulated, name) || slices.ContainsFunc(inRealTime, free) {
			continue
		}
		text, in := read(t, name), ""
		if strings.Contains(text, "\t\"testing/synctest\"\n") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if match := function.FindStringSubmatch(line); match != nil {
				in = match[1]
			}
			if line = strings.ReplaceAll(line, "time.After(time.Minute)", ""); waits.MatchString(line) && in != "eventually" && in != "until" {
				t.Errorf("%s:%d: waits by the clock", name, i+1)
			}
		}
	}
}
