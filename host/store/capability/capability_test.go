package capability_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host/store/capability"
)

// A record is read as it was written, and its bytes never change.
func TestBody(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		record capability.Record
		body   string
		seen   string
	}{
		{capability.Record{Nonce: "a"}, "{\n  \"v\": 1,\n  \"nonce\": \"a\",\n  \"create\": \"honoured\"\n}", ""},
		{
			capability.Record{Nonce: "a", Refused: true, Why: "16 of 16", At: at},
			"{\n  \"v\": 1,\n  \"nonce\": \"a\",\n  \"create\": \"refused\",\n  \"why\": \"16 of 16\",\n  \"at\": \"2026-11-21T12:00:00Z\"\n}",
			"16 of 16, 2026-11-21T12:00:00Z",
		},
	} {
		if got := string(test.record.Body()); got != test.body {
			t.Errorf("%s, want %s", got, test.body)
		}
		got, ok := capability.Parse([]byte(test.body))
		if !ok || got != test.record || got.Seen() != test.seen {
			t.Errorf("%+v %v %q", got, ok, got.Seen())
		}
	}
}

// A body that is no record says nothing. A refusal counts whatever other fields there are, and
// its text has nothing that controls a terminal.
func TestParse(t *testing.T) {
	for _, body := range []string{"", "x", "null", "[]", "{}", `{"create":"refused"}`, `{"v":1,"create":"ref`} {
		if c, ok := capability.Parse([]byte(body)); ok || c.Refused {
			t.Errorf("%s is %+v", body, c)
		}
	}
	c, ok := capability.Parse([]byte(`{"v":9,"create":"refused","why":"a\u001b[2Jb` + strings.Repeat("c", 1000) + `","at":"soon","more":{}}`))
	if !ok || !c.Refused || !strings.HasPrefix(c.Seen(), "a [2Jb") || len(c.Why) != 512 {
		t.Errorf("%+v", c)
	}
	for _, body := range []string{
		`{"v":1,"create":"refused","why":"x","ext":{"create":"honoured","why":"y"}}`,
		`{"v":2.5,"create":"refused","why":"x"}`,
		`{"v":2,"create":"refused","nonce":7,"why":"x","at":1}`,
		`{"v":2,"nonce":{},"at":[],"create":"refused","why":"x"}`,
	} {
		if c, ok := capability.Parse([]byte(body)); !ok || !c.Refused || c.Seen() != "x" {
			t.Errorf("%s is %+v", body, c)
		}
	}
	if c, ok := capability.Parse([]byte(`{"v":2,"create":"refused","why":{"text":"x"}}`)); !ok || !c.Refused || c.Seen() != "" {
		t.Errorf("%+v", c)
	}
	if c, ok := capability.Parse([]byte(`{"v":1,"nonce":7,"create":"honoured"}`)); ok {
		t.Errorf("%+v", c)
	}
	if c, ok := capability.Parse([]byte(`{"v":1,"nonce":"n","create":"perhaps","why":"x"}`)); !ok || c.Refused || c.Why != "" {
		t.Errorf("%+v", c)
	}
}
