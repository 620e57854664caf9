package report

import (
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// stateUnread is the state of a record that could not be read.
const stateUnread = "unreadable"

// unread is a record that could not be read, as ls prints it with --json.
type unread struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason"`
	Error  string `json:"error"`
}

// NewUnread returns the report of a name whose record could not be read, and why.
func NewUnread(name, reason, text string) unread { return unread{name, stateUnread, reason, text} }

// Header is the first row of ls. Cells are separated by tabs.
const Header = "NAME\tSTATE\tPROTOCOL\tHOLDER\tHOST\tPID\tAGE\tLEFT"

// UnreadRow is the row of ls for a name whose record could not be read, with an error's text.
func UnreadRow(name, text string) string {
	why := strings.Join(strings.Fields(PrintableLines(text)), " ") // on one line
	return strings.Join([]string{dash(name), stateUnread, "-", "-", "-", "-", "-", "-", why}, "\t")
}

// Row is the row of ls for a lease or a semaphore.
func Row(s *host.Status) string {
	age, left := "-", "-"
	if !s.Written.IsZero() || !s.Released.IsZero() {
		age = s.Age.Round(time.Second).String()
	}
	if s.State == core.ObservedHeld && s.Left != 0 {
		left = s.Left.Round(time.Second).String()
	}
	who := []string{dash(s.Holder), dash(s.Host), dash(s.PID)}
	if s.IsSemaphore() { // its newest version names a writer, which need not be a holder
		who = []string{heldOfMost(s), "-", "-"}
	}
	cells := slices.Concat([]string{dash(s.Name), s.State.String(), s.Protocol.String()}, who, []string{age, left})
	return strings.Join(cells, "\t")
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return host.Printable(text)
}

// HasExpired reports whether ls --stale shows a lease or a semaphore. It shows a semaphore if the
// session of a holder is dead.
func HasExpired(s *host.Status) bool {
	if s.IsSemaphore() {
		return slices.ContainsFunc(s.Holders, func(p host.PermitHolder) bool { return p.Stale })
	}
	return s.State == core.ObservedStale
}
