package explore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/world"
)

// shortKey names an object for a person: a version by its number.
func shortKey(key string) string {
	_, rest, found := strings.Cut(key, world.Registers)
	if strings.HasSuffix(key, "/"+core.ResultFile) {
		return "the result"
	}
	if !found {
		return sessionKey(key)
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

// sessionKey names an object of a session.
func sessionKey(key string) string {
	rest, found := strings.CutPrefix(key, core.SessionPrefix)
	id, object, _ := strings.Cut(rest, "/")
	switch {
	case !found:
		return key
	case object == "beat":
		return "the beat of session " + short(id)
	case strings.HasPrefix(object, "call/"):
		return "a call to session " + short(id)
	}
	return key
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
		Capacity, Width      int
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
	case r.State == "value":
		return fmt.Sprintf("%d x %d, held: %s", r.Capacity, r.Width, holdersIn(body))
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

// holdersIn are the permits of a semaphore, by their labels.
func holdersIn(body []byte) string {
	limit, all := broughtBy(body)
	var labels []string
	for _, p := range all {
		labels = append(labels, p.Label)
	}
	text := cmp.Or(strings.Join(labels, " "), "nothing")
	if limit != 0 {
		text += fmt.Sprintf(", limit %d", limit)
	}
	return text
}

// limitedWords describes what is done with Buckets.
type limitedWords struct{ canalWords }

// Applied implements Words.
func (limitedWords) Applied(_ string, a *core.Action, reply *core.Event) string {
	d := deedOf(a)
	if reply.Outcome == core.OutcomeNo {
		return d.who + " " + d.verb + ": no"
	}
	return d.who + " " + d.verb
}

// canalWords describes the tables of canal_lock.
type canalWords struct{}

// Applied implements Words.
func (canalWords) Applied(actor string, a *core.Action, reply *core.Event) string {
	no := reply.Outcome == core.OutcomeNo
	switch {
	case a.Key == canalHighest && a.Kind == core.ActionGet && no:
		return actor + " looks up highest: there is none"
	case a.Key == canalHighest && a.Kind == core.ActionGet:
		return actor + " looks up highest: " + string(reply.Body)
	case a.Key == canalHighest:
		return actor + " writes highest = " + string(a.Body)
	case a.Key == canalManager && strings.HasPrefix(string(a.Body), "-"):
		return "the manager forgets " + string(a.Body[1:])
	case a.Key == canalManager:
		return "the manager monitors " + string(a.Body)
	case a.Kind == core.ActionCreate && no:
		return actor + " creates bucket " + a.Key + ": it is there already"
	case a.Kind == core.ActionCreate:
		return actor + " creates bucket " + a.Key + " with 1"
	case no:
		return actor + " counts bucket " + a.Key + " " + string(a.Body) + ": there is none"
	}
	return actor + " counts bucket " + a.Key + " " + string(a.Body) + ": " + string(reply.Body)
}

// Noticed implements Words.
func (canalWords) Noticed(actor string, a *core.Action) string {
	switch a.Kind {
	case core.ActionHeld:
		return actor + " holds a permit"
	case core.ActionRefused:
		if a.Reason == core.ReasonFull {
			return actor + " finds no room"
		}
		return actor + " is out of buckets"
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
