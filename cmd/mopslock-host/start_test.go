package main

import (
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNothingBeforeMain: what is used by some commands only is made when they use it.
// Of ours no package makes more at every start than a few maps and errors.
func TestNothingBeforeMain(t *testing.T) {
	t.Parallel()
	const few = 16 // allocations
	cmd := exec.Command("mopslock-host", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := regexp.MustCompile(`(?m)^init github\.com/mopslock/mopslock/((?:core|host|wasm)\S*) .* ([0-9]+) allocs$`).FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		t.Fatalf("nothing of ours is in %s", out)
	}
	for _, line := range lines {
		if n, err := strconv.Atoi(string(line[2])); err != nil || n > few {
			t.Errorf("%s allocates %s times before main", line[1], line[2])
		}
	}
}

// TestTags: each tag leaves out of the program what it is for, which is in it otherwise.
func TestTags(t *testing.T) {
	t.Parallel()
	for tag, leavesOut := range map[string][]string{
		"":                     nil,
		"mopslock_nocloud":     {"cloud.google.com/go/", "github.com/Azure/", "github.com/aws/", "gocloud.dev/", "google.golang.org/grpc"},
		"disable_grpc_modules": {"github.com/envoyproxy/", "google.golang.org/grpc/xds"},
	} {
		out, err := exec.Command("go", "list", "-deps", "-tags", tag, ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{
			"cloud.google.com/go/", "github.com/Azure/", "github.com/aws/", "gocloud.dev/", "google.golang.org/grpc", "github.com/envoyproxy/", "google.golang.org/grpc/xds",
		} {
			if in := strings.Contains("\n"+string(out), "\n"+prefix); in == slices.Contains(leavesOut, prefix) && (tag != "mopslock_nocloud" || in) {
				t.Errorf("-tags %q: %s is in it: %v", tag, prefix, in)
			}
		}
	}
}

// TestCommitOf: version names the commit, and says whether anything was changed since.
func TestCommitOf(t *testing.T) {
	t.Parallel()
	vcs := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: modified}, {Key: "vcs.revision", Value: "0123abcd"}}}
	}
	for _, c := range []struct {
		info   *debug.BuildInfo
		commit string
	}{
		{nil, ""},
		{&debug.BuildInfo{}, ""},
		{vcs("true"), "0123abcd+dirty"},
		{vcs("false"), "0123abcd"},
	} {
		if commit := commitOf(c.info); commit != c.commit {
			t.Errorf("%v: %q", c.info, commit)
		}
	}
}
