package house

import (
	"go/version"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeShowsTheCommands: the first screen of README.md has two commands and two examples.
func TestReadmeShowsTheCommands(t *testing.T) {
	first := strings.Join(strings.SplitAfterN(read(t, "README.md"), "\n", 61)[:60], "")
	for _, must := range []string{"    make run ", "    make test ", "```go\n", "```sh\n"} {
		if !strings.Contains(first, must) {
			t.Errorf("README.md: no %q within its first 60 lines", strings.TrimSpace(must))
		}
	}
}

// TestFacesAreShort: a newcomer reads both pages within ten minutes.
func TestFacesAreShort(t *testing.T) {
	for document, most := range map[string]int{"README.md": 200, "ARCHITECTURE.md": 250} {
		if lines := strings.Count(read(t, document), "\n"); lines > most {
			t.Errorf("%s has %d lines, and may have %d: text about one folder goes into its README.md", document, lines, most)
		}
	}
}

// documents are all pages but the changelog, which tells of the past.
func documents(t *testing.T) (all []string) {
	for _, name := range tracked(t) {
		if path.Ext(name) == ".md" && name != "CHANGELOG.md" {
			all = append(all, name)
		}
	}
	return all
}

// TestLinksLead: each link of a page within the repository leads to a file, and to a
// heading of it.
func TestLinksLead(t *testing.T) {
	fenced := regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	anchors := func(name string) map[string]bool {
		found := map[string]bool{}
		for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, name), ""), -1) {
			found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
		}
		return found
	}
	for _, document := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, document), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			file, anchor, deep := strings.Cut(match[1], "#")
			target := document
			if file != "" {
				target = path.Join(path.Dir(document), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", document, match[1])
			} else if deep && !anchors(target)[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", document, match[1])
			}
		}
	}
}

// TestPageHasTheMetrics: host/README.md has a row for each metric of the package comments there, and no other.
func TestPageHasTheMetrics(t *testing.T) {
	aRow := regexp.MustCompile("(?m)^\\| `(mopslock\\.[a-z._]+)` \\|")
	aMetric := regexp.MustCompile(`(?m)^//\s(mopslock\.[a-z._]+) `)
	page, metrics := map[string]bool{}, map[string]bool{}
	for _, match := range aRow.FindAllStringSubmatch(read(t, "host/README.md"), -1) {
		page[match[1]] = true
	}
	for _, name := range tracked(t) {
		if strings.HasPrefix(name, "host/") && path.Ext(name) == ".go" {
			for _, match := range aMetric.FindAllStringSubmatch(read(t, name), -1) {
				metrics[match[1]] = true
			}
		}
	}
	for name := range metrics {
		if !page[name] {
			t.Errorf("host/README.md has no row for %s", name)
		}
	}
	if len(metrics) < 10 || len(page) != len(metrics) {
		t.Errorf("the page has %d metrics, and host %d", len(page), len(metrics))
	}
}

// TestPagesNameTargets: each target of make that a page names is in the Makefile, and
// each package that it runs or tests is there.
func TestPagesNameTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	named := regexp.MustCompile("(?m)(?:`|^ {4})(?:make ([a-z][a-z-]*)|go (?:run|test) (?:-[^`]* )?\\./([\\w/]+))")
	for _, document := range documents(t) {
		for _, match := range named.FindAllStringSubmatch(read(t, document), -1) {
			if target := match[1]; target != "" && !strings.Contains(makefile, "\n"+target+": ") {
				t.Errorf("%s names make %s, and there is no such target", document, target)
			}
			if _, err := os.Stat(filepath.Join(root, match[2])); err != nil {
				t.Errorf("%s names ./%s, which does not exist", document, match[2])
			}
		}
	}
}

// TestDockerfile: it names a target of make and a Go that is new enough, and its user is that of a release's image.
func TestDockerfile(t *testing.T) {
	find := func(name, pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, name))
		if found == nil {
			t.Fatalf("%s has no %s", name, pattern)
		}
		return found[1]
	}
	const dockerfile = ".github/Dockerfile"
	if target := find(dockerfile, `make -C /src ([a-z-]+) `); !strings.Contains(read(t, "Makefile"), "\n"+target+": ") {
		t.Errorf("no target %s", target)
	}
	if has, needs := find(dockerfile, `(?m)^FROM golang:(\S+) `), find("go.mod", `(?m)^go (\S+)$`); version.Compare("go"+has, "go"+needs) < 0 {
		t.Errorf("Go %s, and go.mod needs %s", has, needs)
	}
	if user, released := find(dockerfile, `(?m)^USER (\S+)$`), find("release/image.go", `const nobody = "(.*)"`); user != released {
		t.Errorf("user %s, and a release's image has %s", user, released)
	}
}

// TestMakefileHelp: every target has one line of help.
func TestMakefileHelp(t *testing.T) {
	for _, target := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):([^=].*)?$`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		if _, help, ok := strings.Cut(target[2], "## "); !ok || len(help) < 10 {
			t.Errorf("Makefile: target %s has no help", target[1])
		}
	}
}

// TestArchitectureNamesEveryFolder: each folder with files of its own has its
// line in ARCHITECTURE.md, and each line its folder. The line of a folder is also
// about its testdata.
func TestArchitectureNamesEveryFolder(t *testing.T) {
	exists := map[string]bool{}
	for _, name := range tracked(t) {
		if dir := path.Dir(name); dir != "." && !strings.Contains(dir, "testdata") {
			exists[dir] = true
		}
	}
	line := regexp.MustCompile("(?m)^\\| `([a-z0-9./_-]+)/` \\| .{10,} \\|$")
	named := map[string]bool{}
	for _, match := range line.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1) {
		named[match[1]] = true
		if !exists[match[1]] {
			t.Errorf("ARCHITECTURE.md names %s/, which does not exist", match[1])
		}
	}
	for dir := range exists {
		if !named[dir] {
			t.Errorf("ARCHITECTURE.md has no line for %s/", dir)
		}
	}
}

// TestDocumentsNameWhatExists: each path of ours that a document puts into
// backquotes exists, and so does each test.
func TestDocumentsNameWhatExists(t *testing.T) {
	tests, aName := map[string]bool{}, regexp.MustCompile(`(?m)^(?:func | *(?:async )?def )((?:Test|Fuzz|Benchmark|Example|test_)\w+)\(`)
	for _, name := range tracked(t) {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".py") {
			for _, match := range aName.FindAllStringSubmatch(read(t, name), -1) {
				tests[match[1]] = true
			}
		}
	}
	quoted := regexp.MustCompile("`([^`\n]+)`")
	ours := regexp.MustCompile(`^(core|host|wasm|bindings|cmd|tests|\.ci)/[\w./-]*$`)
	aTest := regexp.MustCompile(`^((Test|Fuzz|Benchmark|Example)[A-Z]\w+|test_[a-z0-9_]+)$`)
	for _, document := range append(documents(t), "CHANGELOG.md") {
		for _, match := range quoted.FindAllStringSubmatch(read(t, document), -1) {
			name := match[1]
			if _, err := os.Stat(filepath.Join(root, name)); ours.MatchString(name) && err != nil {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
			if aTest.MatchString(name) && !tests[name] {
				t.Errorf("%s names %s, and there is no such test", document, name)
			}
		}
	}
}

// TestProtocolNamesTheMutations: each rule that a test can leave out has that name in the
// protocol's text, and no other name is there.
func TestProtocolNamesTheMutations(t *testing.T) {
	named, mutations := map[string]bool{}, map[string]bool{}
	for _, match := range regexp.MustCompile(`\*([a-z]+(?:-[a-z]+)*)\*`).FindAllStringSubmatch(read(t, "core/PROTOCOL.md"), -1) {
		named[match[1]] = strings.Contains(match[1], "-") || match[1] == "overallocate"
	}
	for _, match := range regexp.MustCompile(`Mutation = "([a-z-]+)"`).FindAllStringSubmatch(read(t, "core/internal/base/mutations.go"), -1) {
		mutations[match[1]] = true
		if !named[match[1]] {
			t.Errorf("core/PROTOCOL.md has no rule for the mutation %s", match[1])
		}
	}
	for name, isMutation := range named {
		if isMutation && !mutations[name] {
			t.Errorf("core/PROTOCOL.md names %s, and core has no such mutation", name)
		}
	}
}

// TestCitationsExist: each rule that a comment cites is in core/PROTOCOL.md.
func TestCitationsExist(t *testing.T) {
	rules, group := map[string]bool{}, ""
	for _, match := range regexp.MustCompile(`(?m)^\*\*([A-Z]\d+) |^(\d+)\. `).FindAllStringSubmatch(read(t, "core/PROTOCOL.md"), -1) {
		if match[1] != "" {
			group = match[1]
		} else {
			match[1] = group + "." + match[2]
		}
		rules[match[1]] = true
	}
	cited := regexp.MustCompile(`PROTOCOL ((?:[A-Z]?\d[\d.]*\d|[A-Z]\d|section)(?: and [A-Z][\d.]*\d)?)`)
	for _, name := range tracked(t) {
		if filepath.Ext(name) != ".go" || name == "tests/house/docs_test.go" {
			continue
		}
		for _, match := range cited.FindAllStringSubmatch(read(t, name), -1) {
			for rule := range strings.SplitSeq(match[1], " and ") {
				if !rules[rule] {
					t.Errorf("%s cites PROTOCOL %s, and there is no such rule", name, rule)
				}
			}
		}
	}
}
