package report

import (
	"testing"
)

func TestPrintableLines(t *testing.T) {
	if got := PrintableLines("a\tb\r\nc\x1b[31m\xff\u202eé\x00"); got != "a\tb\nc\\x1b[31m\\xff\\u202eé\\x00" {
		t.Errorf("%q", got)
	}
}
