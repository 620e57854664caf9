package keep

import (
	"bytes"
	"errors"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/fence"
	"github.com/mopslock/mopslock/host/store"
)

// asked is a message to the keeper itself. Call is the parent's number of it, which the answer has.
type asked struct {
	Kind string `json:"kind"`
	Call uint64 `json:"call"`

	URL         string            `json:"url"`         // open
	Environment map[string]string `json:"environment"` // open: what has changed since the keeper began

	Key   string `json:"key"`   // fetch, list (the prefix), guard
	Path  string `json:"path"`  // fetch: the file that gets it
	After string `json:"after"` // list
	Count int    `json:"count"` // list

	Verb   string `json:"verb"` // guard: read, raise, write, swap, create_once, read_once
	Token  uint64 `json:"token"`
	Holder string `json:"holder"`
	Old    []byte `json:"old"` // swap: nil is an object that was never written
	Body   []byte `json:"body"`
	Until  int64  `json:"until_ns"` // Mono: when the parent does not wait any more
}

// said is a message of the keeper itself.
type said struct {
	Kind string `json:"kind"`
	Call uint64 `json:"call,omitempty"`

	Version  string `json:"version,omitempty"`  // ready
	Messages int    `json:"messages,omitempty"` // ready
	PID      int    `json:"pid,omitempty"`      // ready

	Mono int64 `json:"mono_ns,omitempty"` // done, of ping

	Claim uint64 `json:"claim,omitempty"` // not_begun, answered

	Verb    string `json:"verb,omitempty"`    // answered
	Outcome string `json:"outcome,omitempty"` // answered
	Body    []byte `json:"body,omitempty"`    // answered, of a put
	Fault   string `json:"fault,omitempty"`   // what sort of error it is: see faultOf
	Class   string `json:"class,omitempty"`
	Text    string `json:"text,omitempty"`

	Level   string         `json:"level,omitempty"` // log
	Fields  map[string]any `json:"fields,omitempty"`
	Entries [][2]any       `json:"entries,omitempty"` // listed: key and stamp
	More    bool           `json:"more,omitempty"`
	Slot    *slot          `json:"slot,omitempty"` // guarded
	Own     bool           `json:"own,omitempty"`  // guarded, create_once: it is ours
	Counted []Counted      `json:"counted,omitempty"`
}

// Counted is what a metric of the Host has come to, for one set of labels.
type Counted struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels"`
	Value   int64             `json:"value"`             // of a counter or a gauge
	Sum     float64           `json:"sum"`               // of a histogram, as are
	Buckets []uint64          `json:"buckets,omitempty"` // how many are in each bucket
}

// slot is one of a guarded object.
type slot struct {
	Number  uint64 `json:"number"`
	Body    []byte `json:"body"`
	Written uint64 `json:"written"`
	Token   uint64 `json:"token"`
	Holder  string `json:"holder"`
	Nonce   string `json:"nonce"`
}

func readAsked(message []byte) (*asked, error) {
	var a asked
	d := msgpack.NewDecoder(bytes.NewReader(message))
	d.SetCustomStructTag("json")
	if err := d.Decode(&a); err != nil {
		return nil, err
	}
	switch a.Kind {
	case "open", "fetch", "list", "guard", "catch_up", "counts", "ping":
		return &a, nil
	}
	return nil, errors.New("kind " + host.Printable(a.Kind) + " is none")
}

// fault is how an error is told: by its sort, the class of the store's answer, and its text.
func fault(call uint64, err error) *said {
	m := &said{Kind: "fault", Call: call, Fault: faultOf(err), Text: strings.TrimPrefix(err.Error(), "mopslock: ")}
	if failed, ok := errors.AsType[*store.Error](err); ok {
		m.Class = failed.Class.String()
	}
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		m.Slot = slotOf(&stale.Newest)
	}
	if unknown, ok := errors.AsType[*fence.UnknownError](err); ok {
		m.Slot = &slot{Number: unknown.Number, Nonce: unknown.Nonce}
	}
	return m
}

// notBegun is told of a command that has begun no claim.
func notBegun(claim uint64, err error) *said {
	m := fault(0, err)
	m.Kind, m.Claim = "not_begun", claim
	return m
}

// faultOf is the sort of an error. What is not listed is about the arguments.
func faultOf(err error) string {
	var lease *host.Error
	var broken *host.EngineError
	var failed *store.Error
	switch {
	case errors.Is(err, host.ErrWeightExceedsLimit):
		return "too_heavy"
	case errors.As(err, &broken):
		return "engine"
	case errors.Is(err, errRaced):
		return "raced"
	case errors.Is(err, fence.ErrStale):
		return "stale"
	case errors.Is(err, fence.ErrUnknown): // before what the store said, which is behind it
		return "unsettled"
	case errors.Is(err, fence.ErrForeign), errors.Is(err, fence.ErrCorrupt), errors.Is(err, fence.ErrNewer), errors.Is(err, errors.ErrUnsupported):
		return "unfit"
	case errors.Is(err, store.ErrAbsent):
		return "absent"
	case errors.Is(err, store.ErrURL), errors.Is(err, store.ErrKey):
		return "argument"
	case errors.Is(err, host.ErrClosed), errors.Is(err, store.ErrClosed):
		return "closed"
	case errors.As(err, &lease), errors.As(err, &failed):
		return "store"
	case isOver(err):
		return "timeout"
	}
	return "argument"
}

// answered tells what a request has come to.
func answered(n *host.Notice) *said {
	m := &said{Kind: "answered", Claim: n.Claim, Verb: n.Kind.String(), Outcome: n.Answer.Outcome.String(), Body: n.Body}
	if n.Answer.Class != 0 {
		m.Class = n.Answer.Class.String()
	}
	if n.Cause != nil {
		m.Text = causeOf(n.Cause)
	}
	return m
}

// causeOf is an error in the store's own words: the parent says what to do.
func causeOf(err error) string {
	if failed, ok := errors.AsType[*store.Error](err); ok {
		return failed.Said()
	}
	return strings.TrimPrefix(err.Error(), "mopslock: ")
}

// with is what belongs to a notice, beside what the client says.
type with struct {
	Cause string `json:"cause,omitempty"` // the store's own words
	Own   bool   `json:"own,omitempty"`   // of found
}

// appendNotice appends the message of a notice.
func appendNotice(to []byte, number uint64, n *host.Notice) []byte {
	w := with{Own: n.Own}
	if n.Cause != nil && tellsCause(n.Kind) {
		w.Cause = causeOf(n.Cause)
	}
	more := w != with{}
	to = appendHead(to, number, more)
	to = core.AppendAction(to, n.Action)
	if more {
		to = append(to, encode(&w)...)
	}
	return to
}

// tellsCause reports whether a notice may be bad news.
func tellsCause(kind core.ActionKind) bool {
	switch kind {
	case core.ActionHeld, core.ActionRenewed, core.ActionDeadline, core.ActionWaiting, core.ActionLaunch, core.ActionAdopted:
		return false
	}
	return true
}

// appendHead appends the array's head and the store's number.
func appendHead(to []byte, store uint64, more bool) []byte {
	head := byte(0x92) // an array of two
	if more {
		head++
	}
	return append(append(to, head), encode(store)...)
}

// encode is a value in compact msgpack.
func encode(v any) []byte {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.SetCustomStructTag("json")
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		panic("mopslock: keep: " + err.Error()) // its types are ours
	}
	return b.Bytes()
}
