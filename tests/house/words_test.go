package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// worn are words that a reader has to translate. Plain ones name the actor, say obeys or
// handles, forever, also, or that a lease is acquired. A comment may break between two words.
var worn = regexp.MustCompile(strings.ReplaceAll(
	`(?i)\b(who[e]ver|hee[d](?:s|ed|ing)?|(?:is|are|was|were|be|been) ha[d]|for eve[r]|beside[s]|cam[e] to)\b`,
	" ", `\s+(?:(?://|#+|\*)\s*)?`))

// wornByContract are the files and directories whose words must stay, and why.
var wornByContract = map[string]string{
	"core/testdata/scripts":                 "their first comments stand in the vectors",
	"core/testdata/vectors":                 "every engine repeats them to the byte",
	"cmd/mopslock-host/testdata":            "what the command prints is a contract",
	"core/validate.go":                      "the text of an error is a contract",
	"core/machines/strict_validate_test.go": "it expects that text",
	"core/machines/vector_test.go":          "a vector's first comment stands in it",
}

// wornTexts are said by log lines, errors, findings and warnings, which are contracts.
var wornTexts = regexp.MustCompile(`no session can be had|strict cannot be had|stored what it came to|take what it came to|both wait for ever;`)

// wornToday are the directories that still have worn words, and how many at most. A figure may
// only fall, and its line goes when it is 0.
var wornToday = map[string]int{}

// released begins the part of CHANGELOG.md that stays as it was released.
var released = regexp.MustCompile(`(?m)^## \[\d`)

// TestPlainWords: no text of ours has a worn word, but where one must stay.
func TestPlainWords(t *testing.T) {
	found := map[string][]string{}
	for _, name := range tracked(t) {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || !info.Mode().IsRegular() || under(name, wornByContract) != "" {
			continue
		}
		text, top := wornTexts.ReplaceAllString(read(t, name), ""), under(name, wornToday)
		if name == "CHANGELOG.md" {
			text = released.Split(text, 2)[0]
		}
		if strings.Contains(text, "\x00") {
			continue // it is no text
		}
		for _, at := range worn.FindAllStringIndex(text, -1) {
			line := 1 + strings.Count(text[:at[0]], "\n")
			found[top] = append(found[top], fmt.Sprintf("%s:%d: %q", name, line, text[at[0]:at[1]]))
		}
	}
	for top, places := range found {
		if len(places) > wornToday[top] {
			t.Errorf("%d worn words, at most %d:\n%s", len(places), wornToday[top], strings.Join(places, "\n"))
		}
	}
	for top, most := range wornToday {
		t.Logf("%s: %d worn words, at most %d", top, len(found[top]), most)
	}
}

// under finds the file or directory of a list that a file is, or lies in, or "".
func under[T any](name string, list map[string]T) string {
	for top := range list {
		if within(name, top) {
			return top
		}
	}
	return ""
}
