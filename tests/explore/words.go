package explore

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// shortKey names an object for a person: a version by its number.
func shortKey(key string) string {
	_, rest, found := strings.Cut(key, registers)
	if strings.HasSuffix(key, "/"+core.ResultFile) {
		return "the result"
	}
	if !found {
		return key
	}
	if rest == "" {
		return "the versions"
	}
	digits, object, _ := strings.Cut(rest, "/")
	inverse, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return key
	}
	n := strconv.FormatUint(math.MaxUint64-inverse, 10)
	switch {
	case object == "v":
		return "version " + n
	case strings.HasPrefix(object, "b."):
		return "the beat of " + short(object[2:]) + " under version " + n
	}
	return "the objects of version " + n
}

// short is as much of an id as tells it from others.
func short(id string) string {
	const enough = 8
	return id[:min(len(id), enough)]
}

// gist is what a body says, as far as a story needs it.
func gist(body []byte) string {
	var r struct {
		State, Tenure, Owner string
		N                    uint64
		WriterID             string `json:"writer_id"`
		WrittenAt            string `json:"written_at"`
		ReleasedAt           string `json:"released_at"`
		AcquiredAt           string `json:"first_acquired_at"`
		Count                int    `json:"write_count"`
		Seq                  uint64
	}
	if json.Unmarshal(body, &r) != nil {
		return fmt.Sprintf("%d bytes", len(body))
	}
	switch {
	case r.ReleasedAt != "":
		return "released by " + short(r.WriterID)
	case r.WriterID != "" && r.AcquiredAt != "":
		return fmt.Sprintf("held by %s, write %d", short(r.WriterID), r.Count)
	case r.WriterID != "":
		return fmt.Sprintf("claimed by %s, write %d", short(r.WriterID), r.Count)
	case r.State == "held" && r.Owner != r.Tenure:
		return "held by " + short(r.Tenure) + ", made by its owner " + short(r.Owner)
	case r.State == "held":
		return "held by " + short(r.Tenure)
	case r.State != "":
		return r.State
	case r.Seq != 0:
		return fmt.Sprintf("beat %d", r.Seq)
	}
	return "a sign of life"
}

// workerWords describes ancestors in the words of their own documents.
type workerWords struct {
	object  string // "the lock"
	put     string // "writes its ID to"
	held    string // "starts processing the data set"
	refused string // "moves on to another data set"
	done    string
}

// Applied implements Words.
func (v workerWords) Applied(actor string, a *core.Action, reply *core.Event) string {
	switch a.Kind {
	case core.ActionGet:
		seen := string(reply.Body)
		if reply.Outcome == core.OutcomeNo {
			seen = "nothing there"
		}
		return actor + " reads " + v.object + ": " + seen
	case core.ActionPut:
		return actor + " " + v.put + " " + v.object + ": " + string(a.Body)
	case core.ActionCreate:
		if reply.Outcome == core.OutcomeNo {
			return actor + " adds " + v.object + ": it exists already"
		}
		return actor + " adds " + v.object + ": success"
	case core.ActionDelete:
		return actor + " removes " + v.object
	}
	return ""
}

// Noticed implements Words.
func (v workerWords) Noticed(actor string, a *core.Action) string {
	switch a.Kind {
	case core.ActionHeld:
		return actor + " " + v.held
	case core.ActionRefused:
		return actor + " " + v.refused
	case core.ActionReleased:
		return actor + " " + v.done
	}
	return ""
}
