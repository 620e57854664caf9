package resolve

import (
	"github.com/mopslock/mopslock/core/internal/jsontext"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// The capability record is the one object in which the processes that use a store tell
// each other whether create-if-absent can be relied on there. Every process believes a
// record that refuses the store. None believes one that says that it was honoured: that
// may have been at another endpoint, or in another bucket from which this one was copied.
const (
	capabilityKey  = "_mopslock/store.json"
	capabilityType = "application/json"
	// triedPrefix is of the objects that are created instead of the record.
	triedPrefix = "_mopslock/d/"
	maxSeen     = 512 // bytes of what was seen that are read and written
)

// card is what a capability record says.
type card struct {
	nonce   string
	refused bool
	seen    string // one line for people
}

// parseCard reads a record. A refusal counts in any version of the format, whatever other
// fields that version has.
func parseCard(body []byte) (found card, ok bool) {
	s := jsontext.Scanner{B: body}
	s.SkipSpace()
	if s.At() != '{' {
		return card{}, false
	}
	version, at := false, ""
	for more := s.Open(); more; {
		key, value, next, good := s.Element(true, 1)
		if !good {
			return card{}, false
		}
		more = next
		text := value.Kind == jsontext.TokenString
		switch {
		case key.Equal("v"):
			version = value.Kind == jsontext.TokenNumber && value.Raw[0] >= '1' && value.Raw[0] <= '9'
		case key.Equal("nonce") && text:
			found.nonce = string(jsontext.Text(value.Raw).AppendTo(nil))
		case key.Equal("create") && text:
			found.refused = jsontext.Text(value.Raw).Equal("refused")
		case key.Equal("why") && text:
			found.seen = oneLine(jsontext.Text(value.Raw).AppendCut(nil, maxSeen))
		case key.Equal("at") && text:
			at = oneLine(jsontext.Text(value.Raw).AppendCut(nil, maxSeen))
		}
	}
	s.SkipSpace()
	if !version || s.I != len(body) {
		return card{}, false
	}
	if at != "" && found.seen != "" {
		at = ", " + at
	}
	found.seen += at
	return found, true
}

// oneLine is another process's text without characters that control a terminal.
func oneLine(text []byte) string {
	out := make([]rune, 0, len(text))
	for _, r := range string(text) {
		if octets.IsControl(r) {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}

// appendCard writes a record. wall is when a refusal was seen.
func appendCard(dst []byte, c card, wall int64) []byte {
	w := jsontext.Writer(dst)
	w.Raw("{\n  \"v\": 1,\n")
	w.Text("  \"nonce\": \"", c.nonce)
	if !c.refused {
		w.Raw("\",\n  \"create\": \"honoured\"\n}")
		return w
	}
	w.Raw("\",\n  \"create\": \"refused\"")
	if c.seen != "" {
		w.Text(",\n  \"why\": \"", c.seen)
		w.Raw("\"")
	}
	stamp := jsontext.AppendStamp(nil, wall)
	const seconds = len("2006-01-02T15:04:05")
	w.Text(",\n  \"at\": \"", string(stamp[:seconds]))
	w.Raw("Z\"\n}")
	return w
}
