// Package card is the one object in which those who use a store tell each other
// whether create-if-absent can be relied on there.
//
// It reads and writes the object's text, and asks no store. What a card says is
// believed in one direction only: a refusal stands, whoever finds it; that
// create-if-absent was honoured, by whatever endpoint and in whatever bucket this
// one was copied from, everybody has to see for himself.
package card

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

const (
	// Key is where the card is.
	Key = "_mopslock/store.json"
	// Type is its content type.
	Type = "application/json"
)

// maxWhy bounds, in bytes, how much of a reason is read and written.
const maxWhy = 512

// What a card says of create-if-absent.
const (
	honoured = "honoured"
	refused  = "refused"
)

// Card is what the object says.
type Card struct {
	// Nonce is of the request that wrote it: fresh for each.
	Nonce string
	// Refused: somebody has seen that create-if-absent is not honoured.
	Refused bool
	// Why is what he saw, one line for people; "" unless Refused.
	Why string
	// At is when, by his clock; zero unless Refused.
	At time.Time
}

// text is a card as it is kept.
type text struct {
	V      int    `json:"v"`
	Nonce  string `json:"nonce"`
	Create string `json:"create"`
	Why    string `json:"why,omitempty"`
	At     string `json:"at,omitempty"`
}

// Parse reads a card. It is not ok if the body is none. A refusal counts in
// whichever version of the format it is written, whatever that has put beside it.
func Parse(body []byte) (c Card, ok bool) {
	var verdict struct {
		V      float64 `json:"v"`
		Create string  `json:"create"`
	}
	if json.Unmarshal(body, &verdict) != nil || verdict.V < 1 {
		return Card{}, false
	}
	var t text
	err := json.Unmarshal(body, &t) // what is of another type is left out, and the rest is there
	c = Card{Nonce: t.Nonce, Refused: verdict.Create == refused}
	switch {
	case !c.Refused && err != nil:
		return Card{}, false
	case c.Refused:
		c.Why = oneLine(t.Why)
		c.At, _ = time.Parse(time.RFC3339, t.At) // zero if it says none
	}
	return c, true
}

// Body is the card as it is kept.
func (c Card) Body() []byte {
	t := text{V: 1, Nonce: c.Nonce, Create: honoured}
	if c.Refused {
		t.Create, t.Why = refused, oneLine(c.Why)
		if !c.At.IsZero() {
			t.At = c.At.UTC().Format(time.RFC3339)
		}
	}
	body, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		panic("mopslock: store: card: " + err.Error()) // of strings and a number
	}
	return body
}

// Seen is what was seen and when, in a line, or "".
func (c Card) Seen() string {
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

// oneLine is somebody else's text without what a terminal could obey, and bounded.
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
