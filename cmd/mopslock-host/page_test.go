//go:build unix

package main

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core/wire"
)

// bindings/README.md is what hosts in other languages are written from.
const pageFile = "../../bindings/README.md"

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var quoted = regexp.MustCompile("`([^`]+)`")

func names(text string) (all []string) {
	for _, match := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

// The page's lists of names are the schema's, whole and in their order.
func TestPageHasEveryName(t *testing.T) {
	enums := map[string]string{
		"Config.machine": "MachineKind", "Config.protocol": "Protocol", "Config.renewal": "Renewal", "Config.expiry": "Expiry",
		"Config.role": "Role", "Input.kind": "EventKind", "Input.outcome": "Outcome", "Input.class, Action.class": "Class",
		"Action.kind": "ActionKind", "Action.reason, Input.session_end": "Reason", "Sight.state": "Observation",
		"Answer.state of a lease": "LeaseState", "Answer.state of a companion": "CompanionState",
		"Answer.state of a session": "SessionState", "Answer.state of an invocation": "InvocationState",
		"Answer.state of a breaker, an observer or a calibration": "TaskState",
		"Answer.state of a semaphore":                             "SemaphoreState", "Answer.state of buckets": "BucketsState",
		"Answer.state of a client": "ClientState", "Action.origin": "Origin", "Action.purpose": "Purpose",
		"Answer.error": "ErrorCode",
	}
	schema := schemaNames(t)
	listed := map[string]bool{}
	_, section, _ := strings.Cut(page(t), "\n### Names\n")
	for _, row := range regexp.MustCompile(`(?m)^\| (\w[\w., ]*\w) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		enum, known := enums[row[1]]
		if !known {
			continue // the head of the table
		}
		listed[enum] = true
		if got, want := names(row[2]), schema[enum]; !slices.Equal(got, want) {
			t.Errorf("%s: the page has %q, the schema %q", row[1], got, want)
		}
	}
	const inRecords = "VersionState" // and in no message
	for enum := range schema {
		if !listed[enum] && enum != inRecords {
			t.Errorf("the page has no list of the names of %s", enum)
		}
	}
}

// schemaNames are the wire names in core's schema, by type: the comments behind its constants.
func schemaNames(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range []string{"schema.go", "schema_states.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../../core/"+name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if enum, ok := spec.Type.(*ast.Ident); ok && spec.Comment != nil {
				found[enum.Name] = append(found[enum.Name], strings.TrimSpace(spec.Comment.Text()))
			}
			return true
		})
	}
	if len(found) < 14 {
		t.Fatalf("%d enums in the schema", len(found))
	}
	return found
}

// The page's tables of fields are package wire's structs, whole and in their order.
func TestPageHasEveryField(t *testing.T) {
	for _, message := range []any{wire.Config{}, wire.Input{}, wire.Answer{}, wire.Action{}, wire.Sight{}} {
		typ := reflect.TypeOf(message)
		var want []string
		for i := range typ.NumField() {
			key, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			want = append(want, key)
		}
		_, section, _ := strings.Cut(page(t), "\n### "+typ.Name()+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		var got []string
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
			got = append(got, row[1])
			field := typ.Field(len(got) - 1)
			if kind := kindOf(field.Type); len(got) <= len(want) && !slices.Contains(kind, row[2]) {
				t.Errorf("%s.%s: the page says %s, which is one of %q", typ.Name(), row[1], row[2], kind)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the page has %q, the messages %q", typ.Name(), got, want)
		}
	}
}

// kindOf is how the page may call a type.
func kindOf(typ reflect.Type) []string {
	switch typ.Kind() {
	case reflect.Int64, reflect.Uint64:
		return []string{"integer"}
	case reflect.Bool:
		return []string{"true"}
	case reflect.String:
		return []string{"string", "enum"}
	case reflect.Pointer:
		return []string{"map"}
	}
	return []string{"bytes", "array"}
}

// The page's session is what step answers, to the byte.
func TestPageSession(t *testing.T) {
	_, session, found := strings.Cut(page(t), "\n```session\n")
	session, _, closed := strings.Cut(session, "\n```\n")
	if !found || !closed {
		t.Fatal("the page has no ```session block")
	}
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	a := newApp(in, out, io.Discard)
	ended := make(chan int, 1)
	go func() { ended <- a.execute([]string{"step"}) }()
	answers := bufio.NewReader(stdout)
	told, last := 0, ""
	for line := range strings.Lines(session + "\n") {
		if input, ok := strings.CutPrefix(line, "> "); ok {
			if _, err := io.WriteString(stdin, input); err != nil {
				t.Fatal(err)
			}
			told++
			continue
		}
		want, ok := strings.CutPrefix(line, "< ")
		got, err := answers.ReadString('\n')
		if !ok || err != nil || got != want {
			t.Fatalf("line %d: step says %s%v\nthe page %s", told, got, err, line)
		}
		last = want
	}
	stdin.Close()
	if status := <-ended; status != 0 || told < 10 || !strings.Contains(last, `{"state":"released","idle":true,`) {
		t.Errorf("%d after %d lines, the last %s", status, told, last)
	}
}
