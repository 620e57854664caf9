package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// leaseReport is a lease as status, ls and watch print it with --json.
type leaseReport struct {
	Name       string   `json:"name"`
	Protocol   string   `json:"protocol"`
	State      string   `json:"state"`
	Epoch      uint64   `json:"epoch"`
	Token      uint64   `json:"token"`
	Holder     string   `json:"holder"`
	Host       string   `json:"host"`
	PID        *uint64  `json:"pid"` // null: it is no number, or not said
	Label      string   `json:"label"`
	Companions []string `json:"companions"`
	TTL        float64  `json:"ttl_s"`
	Age        float64  `json:"age_s"`
	Left       float64  `json:"left_s"`
	Clock      string   `json:"clock"`
	By         string   `json:"by,omitempty"` // who broke it,
	Why        string   `json:"why,omitempty"`
}

func newReport(s *host.Status) leaseReport {
	return leaseReport{
		Name: s.Name, Protocol: s.Protocol.String(), State: s.State.String(), Epoch: s.Epoch, Token: s.Token,
		Holder: s.Holder, Host: s.Host, PID: pidNumber(s.PID), Label: s.Label, Companions: companions(s),
		TTL: max(0, s.TTL).Seconds(), Age: milliseconds(s.Age), Left: milliseconds(leftOf(s)),
		Clock: cmp.Or(s.Clock, "local"), By: s.By, Why: s.Why,
	}
}

// pidNumber is a process id as a number, where it is one that JSON can carry: on
// lastwriter it is whatever somebody has written there.
func pidNumber(text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return nil
	}
	return &n
}

// reportStatus prints a lease, or a semaphore.
func (a *app) reportStatus(s *host.Status) error {
	if s.IsSemaphore() {
		return a.report(newSemaphoreReport(s))
	}
	return a.report(newReport(s))
}

// leftOf is what is left of the TTL of a lease that is held, if that is known.
func leftOf(s *host.Status) time.Duration {
	if s.State != core.ObservedHeld {
		return 0
	}
	return max(0, s.Left)
}

// companions are the other owners by their ids. A lock.json tells of its last
// writer only, and has no id for it.
func companions(s *host.Status) []string {
	if s.Protocol != core.ProtocolStrict && s.Companion {
		return []string{s.Host + ":" + s.PID}
	}
	return append([]string{}, s.Companions...)
}

// milliseconds is a duration in seconds, to the millisecond.
func milliseconds(d time.Duration) float64 {
	return math.Round(d.Seconds()*1000) / 1000
}

// report prints one JSON object a line.
func (a *app) report(v any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	return a.print(escapeControls(line.String()))
}

// print writes a report for people, or any other.
func (a *app) print(text string) error {
	_, err := a.stdout.Write([]byte(text))
	return written(err)
}

// escapeControls finishes what JSON leaves undone: DEL, the controls above it,
// and marks that turn the direction of text may stand in a JSON string as they
// are, and terminals obey some of them.
func escapeControls(line string) string {
	var out strings.Builder
	for _, r := range line {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
