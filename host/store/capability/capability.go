// Package capability is the one object in which the processes that use a store tell each other
// whether create-if-absent can be relied on there.
//
// It reads and writes the object's text, and asks no store. Every process believes a
// record that refuses the store. No process believes a record that says that create-if-absent
// was honoured: that may have been at another endpoint, or in another bucket from which
// this one was copied. Each process must see it for itself.
package capability

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

const (
	// Key is where the record is.
	Key = "_mopslock/store.json"
	// Type is its content type.
	Type = "application/json"
)

// maxWhy bounds, in bytes, how much of a reason is read and written.
const maxWhy = 512

// The values of a record's field create.
const (
	honoured = "honoured"
	refused  = "refused"
)

// Record is what the object says.
type Record struct {
	// Nonce is fresh for each request that creates a record.
	Nonce string
	// Refused: a process has seen that create-if-absent is not honoured.
	Refused bool
	// Why is what that process saw, one line for people; "" unless Refused.
	Why string
	// At is when it saw that, by its own clock; zero unless Refused.
	At time.Time
}

// text is the JSON of a record.
type text struct {
	V      int    `json:"v"`
	Nonce  string `json:"nonce"`
	Create string `json:"create"`
	Why    string `json:"why,omitempty"`
	At     string `json:"at,omitempty"`
}

// Parse reads a record. ok is false if the body is no record. A refusal counts in any version
// of the format, whatever other fields that version has.
func Parse(body []byte) (c Record, ok bool) {
	var verdict struct {
		V      float64 `json:"v"`
		Create string  `json:"create"`
	}
	if json.Unmarshal(body, &verdict) != nil || verdict.V < 1 {
		return Record{}, false
	}
	var t text
	err := json.Unmarshal(body, &t) // leaves out fields of another type, and reads the rest
	c = Record{Nonce: t.Nonce, Refused: verdict.Create == refused}
	switch {
	case !c.Refused && err != nil:
		return Record{}, false
	case c.Refused:
		c.Why = oneLine(t.Why)
		c.At, _ = time.Parse(time.RFC3339, t.At) // zero if it says none
	}
	return c, true
}

// Body returns the record's JSON.
func (c Record) Body() []byte {
	t := text{V: 1, Nonce: c.Nonce, Create: honoured}
	if c.Refused {
		t.Create, t.Why = refused, oneLine(c.Why)
		if !c.At.IsZero() {
			t.At = c.At.UTC().Format(time.RFC3339)
		}
	}
	body, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic("mopslock: store: capability: " + err.Error()) // strings and a number always marshal
	}
	return body
}

// Seen returns what was seen and when, in one line, or "".
func (c Record) Seen() string {
	switch {
	case !c.Refused:
		return ""
	case c.At.IsZero():
		return c.Why
	case c.Why == "":
		return c.At.UTC().Format(time.RFC3339)
	}
	return c.Why + ", " + c.At.UTC().Format(time.RFC3339)
}

// oneLine returns another process's text without characters that control a terminal, and
// at most maxWhy bytes of it.
func oneLine(s string) string {
	if len(s) > maxWhy {
		s = s[:maxWhy]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
