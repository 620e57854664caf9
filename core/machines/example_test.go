package machines_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

func loop(machine core.Machine, inbox chan core.Event, ask func(core.Action) core.Event, tell func(core.Action)) error {
	var wake <-chan time.Time // none: no timer is set
	for begun := false; !begun || !machine.Idle(); begun = true {
		event := core.Event{Kind: core.EventWoke}
		select {
		case event = <-inbox: // a command, or the answer to a request
		case <-wake:
		}
		actions, err := machine.Step(clock(), event) // clocks read now, after what the event tells of
		if err != nil {
			return err // the host broke the contract, and the machine is as it was
		}
		wake = nil
		for _, a := range actions { // in order
			switch {
			case a.Kind.IsRequest():
				a.Body = bytes.Clone(a.Body)    // it is the machine's own
				go func() { inbox <- ask(a) }() // within a.Limit, whatever the store does
			case a.Kind == core.ActionWake:
				wake = time.After(time.Duration(a.At - clock().Mono))
			default:
				tell(a) // held, renewed, refused, lost, released, ...
			}
		}
	}
	return nil
}

// clock is good enough for an example: Go's own monotonic clock stands still
// while a machine sleeps, and a host's must not.
func clock() core.Instant {
	now := time.Now()
	return core.Instant{Mono: int64(now.Sub(start)), Wall: now.UnixNano()}
}

var start = time.Now()

// fakeStore is a store: one map.
type fakeStore struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (s *fakeStore) ask(a core.Action) core.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	if a.Kind == core.ActionPut {
		s.objects[a.Key] = a.Body
	} else if answer.Body = s.objects[a.Key]; answer.Body == nil {
		answer.Outcome = core.OutcomeNo
	}
	return answer
}

func Example() {
	lease, err := machines.New(core.Config{
		Machine: core.MachineLease, Terms: core.Terms{Protocol: core.ProtocolLastWriter, Name: "jobs/nightly"}, Seed: [16]byte{1},
	})
	if err != nil {
		panic(err)
	}
	inbox := make(chan core.Event, 4)
	inbox <- core.Event{Kind: core.EventAcquire, Wait: core.Forever}
	s := &fakeStore{objects: map[string][]byte{}}
	err = loop(lease, inbox, s.ask, func(a core.Action) {
		fmt.Println(a.Kind)
		if a.Kind == core.ActionHeld {
			inbox <- core.Event{Kind: core.EventRelease}
		}
	})
	fmt.Println(lease, err)
	// Output:
	// held
	// released
	// released <nil>
}

// doc.go shows the loop as it is compiled and run here.
func TestDocShowsTheLoop(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	text = text[strings.Index(text, "func loop("):]
	text = text[:strings.Index(text, "\n}\n")+2]
	quoted := "//\t" + strings.ReplaceAll(text, "\n", "\n//\t")
	if !strings.Contains(string(doc), quoted) {
		t.Errorf("doc.go has another loop than this:\n%s", quoted)
	}
}
