package core

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// malformed is a message that breaks a rule, and the place where it does.
type malformed struct {
	sort    string
	offset  int
	message []byte
	rule    string
}

// malformedMessages break every rule, most of them in every way: testdata/malformed.txt,
// and one of each sort that is too long.
func malformedMessages(t *testing.T) (all []malformed) {
	t.Helper()
	for _, sort := range []string{"input", "actions", "answer", "config"} {
		all = append(all, malformed{sort, 0, make([]byte, MaxMessage+1), ruleLong})
	}
	for _, line := range linesOf(t, "testdata/malformed.txt") {
		var m malformed
		if _, err := fmt.Sscanf(line, "%s %d %q", &m.sort, &m.offset, &m.message); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		m.rule = line[strings.LastIndex(line, "\" ")+2:]
		all = append(all, m)
	}
	return all
}

// TestMalformedMessages: each is refused by its rule, and the error says where.
func TestMalformedMessages(t *testing.T) {
	covered := map[string]bool{}
	for _, m := range malformedMessages(t) {
		covered[m.rule] = true
		_, err := decode(m.sort, m.message)
		var got *MessageError
		if !errors.As(err, &got) || got.Rule != m.rule || got.Offset != m.offset {
			t.Errorf("%s %.80q: %v, want: %s (at byte %d)", m.sort, m.message, err, m.rule, m.offset)
		}
	}
	for _, rule := range messageRules(t) {
		if !covered[rule] {
			t.Errorf("no message breaks the rule %q", rule)
		}
	}
}

// messageRules is the list of rules at the head of codec.go.
func messageRules(t *testing.T) (rules []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codec.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(c.Names[0].Name, "rule") {
			rule, err := strconv.Unquote(c.Values[0].(*ast.BasicLit).Value)
			if err != nil || slices.Contains(rules, rule) {
				t.Errorf("%s: %v, or not distinct", c.Names[0].Name, err)
			}
			rules = append(rules, rule)
		}
		return true
	})
	return rules
}

// linesOf returns the lines of a file of testdata without its comments.
func linesOf(t testing.TB, path string) []string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(file)), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
}

// testEntries returns n entries with keys of so many bytes.
func testEntries(n, length int) (all []Entry) {
	for i := range n {
		key := strings.Repeat("k", length-1) + string(rune('!'+i%90))
		all = append(all, Entry{[]byte(key), int64(i) * 1_000_000_007_000})
	}
	return all
}
