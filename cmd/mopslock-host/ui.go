package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
)

// ui is where people read: stderr, with at most one live line at its end.
type ui struct {
	out  *nonBlockingWriter
	file *os.File // the terminal, or nil

	mu        sync.Mutex
	live      bool // the live line is on the screen
	wait      *host.Status
	at        time.Time // when wait was seen
	name      string
	work      *pastWork  // what is waited for is a result; nil: a lease,
	occupancy *occupancy // or a permit
	stop      chan struct{}
	done      chan struct{}
}

func newUI(out io.Writer) *ui {
	u := &ui{out: &nonBlockingWriter{to: out}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		u.file = f
	}
	return u
}

// printf prints a line of its own, above the live line if there is one.
func (u *ui) printf(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	fmt.Fprintf(u.out, "mopslock-host: "+format+"\n", args...)
}

// plainf prints a line without the programme's name.
func (u *ui) plainf(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	fmt.Fprintf(u.out, format+"\n", args...)
}

func (u *ui) clear() {
	if u.live {
		fmt.Fprint(u.out, "\r\x1b[K")
		u.live = false
	}
}

// waitingFor shows whom we wait for: one line on a terminal that is kept up to
// date, a line for each holder and for its end elsewhere. host calls it, so it must not block.
func (u *ui) waitingFor(name string, s host.Status) {
	if u.file == nil {
		u.mu.Lock()
		news := u.wait == nil || u.wait.Holder != s.Holder || u.wait.State != s.State // else a renewal
		u.wait = &s
		u.mu.Unlock()
		if news {
			u.printf("waiting for %s, %s", name, waitingText(&s))
		}
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.name, u.wait, u.at = name, &s, time.Now()
	u.draw(u.at)
	if u.stop == nil {
		u.stop, u.done = make(chan struct{}), make(chan struct{})
		go u.tick(u.stop, u.done)
	}
}

// waitingForPermit is waitingFor for a permit.
func (u *ui) waitingForPermit(name string, full *occupancy, s host.Status) {
	if u.file == nil {
		u.printf("waiting for a permit of %s, which %s: %s", host.Printable(name), full.whyFull(&s), full.text(&s, false))
		return
	}
	u.mu.Lock()
	u.occupancy = full
	u.mu.Unlock()
	u.waitingFor(name, s)
}

// stillWaiting brings the live line up to date, if there is one.
func (u *ui) stillWaiting(s host.Status) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stop != nil {
		u.wait, u.at = &s, time.Now()
		u.draw(u.at)
	}
}

// computing is waitingFor for those who want a result. ask says how long others
// took; it is asked once, on a terminal only, and not by the one who calls.
func (u *ui) computing(name string, ask func() ([]time.Duration, error)) func(host.Status) {
	if u.file == nil {
		return func(s host.Status) { u.waitingFor(name, s) }
	}
	u.mu.Lock()
	u.work = new(pastWork)
	u.mu.Unlock()
	var once sync.Once
	return func(s host.Status) {
		u.waitingFor(name, s)
		once.Do(func() {
			go func() { // ends with the store's one answer, or with the process
				if took, err := ask(); err == nil {
					u.mu.Lock()
					defer u.mu.Unlock()
					u.work.took = took
				}
			}()
		})
	}
}

// pastWork is how long others took.
type pastWork struct{ took []time.Duration }

// text is "" where nothing is known.
func (w *pastWork) text() string {
	if len(w.took) == 0 {
		return ""
	}
	least, most := roughly(slices.Min(w.took)), roughly(slices.Max(w.took))
	if least == most {
		return most
	}
	return least + " to " + most
}

// roughly is a duration as one says it: of minutes, the seconds tell nothing.
func roughly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// tick redraws the live line once a second until waited.
func (u *ui) tick(stop, done chan struct{}) {
	defer close(done)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			u.mu.Lock()
			u.draw(now)
			u.mu.Unlock()
		}
	}
}

func (u *ui) draw(now time.Time) {
	u.clear()
	switch ago := now.Sub(u.at); {
	case u.occupancy != nil:
		fmt.Fprint(u.out, u.occupancy.line(u.name, u.wait, u.width()))
	case u.work != nil:
		fmt.Fprint(u.out, computingLine(u.name, u.wait, u.work.text(), ago, u.width()))
	default:
		fmt.Fprint(u.out, waitingLine(u.name, u.wait, ago, u.width()))
	}
	u.live = true
}

// waited takes the live line away.
func (u *ui) waited() {
	u.mu.Lock()
	stop, done := u.stop, u.done
	u.stop = nil
	u.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
}

// progress shows how far a long search is, in a live line of a terminal.
func (u *ui) progress(format string, args ...any) {
	if u.file == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clear()
	fmt.Fprint(u.out, clip(fmt.Sprintf(format, args...), u.width()))
	u.live = true
}

// ended reports whether what is waited for was broken or released, and by whom.
// It need not be free for that: its holder may still rely on it.
func ended(s *host.Status) (how, whom string, is bool) {
	switch s.State {
	case core.ObservedBroken:
		how = "broken"
		if s.By != "" {
			whom = " by " + host.Printable(s.By)
		}
		if s.Why != "" {
			whom += ": " + host.Printable(s.Why)
		}
	case core.ObservedReleased:
		how = "released"
		if s.Host != "" {
			whom = " on " + host.Printable(s.Host)
		}
	default:
		return "", "", false
	}
	return how, whom, true
}

// freeText is when it is free.
func freeText(left, unit time.Duration) string {
	if left <= 0 {
		return "not free yet"
	}
	return "free in " + left.Round(unit).String() + " at the latest"
}

// waitingText says in a line what is waited for.
func waitingText(s *host.Status) string {
	if how, whom, is := ended(s); is {
		return how + whom + "; " + freeText(s.Left, 100*time.Millisecond)
	}
	return "held by " + s.Who()
}

// waitingLine says who holds it, on which host, since when, when it was renewed,
// in less than width columns, so long after it was seen; or that it was broken or
// released, and when it is free. On a narrow terminal the id and the date are cut
// short, and what must go goes from the end: since when, or by whom.
func waitingLine(name string, s *host.Status, ago time.Duration, width int) string {
	line := "waiting for " + host.Printable(name) + ": "
	if how, whom, is := ended(s); is {
		return endedLine(line, how, whom, freeText(s.Left-ago, time.Second), width)
	}
	expiry := expiryText(s, ago)
	whole := line + "held by " + holderText(s, len(s.Holder)) + sinceText(" since ", s, time.DateTime) + expiry
	if len([]rune(whole)) < width {
		return whole
	}
	return clip(line+"held by "+holderText(s, shortHolder)+expiry+sinceText(", since ", s, time.TimeOnly), width)
}

// computingLine says who computes it, on which host, since when, how long others
// took, and when it was renewed; as waitingLine does.
func computingLine(name string, s *host.Status, took string, ago time.Duration, width int) string {
	line := "waiting for the result of " + host.Printable(name) + ": "
	if how, whom, is := ended(s); is {
		return endedLine(line, "its lease was "+how, whom, freeText(s.Left-ago, time.Second), width)
	}
	if took != "" {
		took = ", others took " + took
	}
	expiry := expiryText(s, ago)
	whole := line + "computed by " + holderText(s, len(s.Holder)) + sinceText(" since ", s, time.DateTime) + took + expiry
	if len([]rune(whole)) < width {
		return whole
	}
	line = "waiting for " + host.Printable(name) + ": "
	return clip(line+"computed by "+holderText(s, shortHolder)+sinceText(" since ", s, time.TimeOnly)+took+expiry, width)
}

// endedLine puts when it is free before by whom it was ended, where it is narrow.
func endedLine(line, how, whom, free string, width int) string {
	if whole := line + how + whom + "; " + free; len([]rune(whole)) < width {
		return whole
	}
	return clip(line+how+", "+free+";"+whom, width)
}

func sinceText(since string, s *host.Status, format string) string {
	if s.Acquired.IsZero() {
		return ""
	}
	return since + s.Acquired.Local().Format(format)
}

// expiryText is how long ago it was renewed, or, when a renewal is late, when it can
// expire.
func expiryText(s *host.Status, ago time.Duration) string {
	left := s.Left - ago
	renewed := max(0, s.TTL-left)
	switch {
	case s.Left <= 0 || left <= 0:
		return ""
	case renewed <= s.TTL/2:
		return fmt.Sprintf(", renewed %.0f s ago", renewed.Seconds())
	}
	return ", can expire in " + left.Round(time.Second).String()
}

// shortHolder is how many bytes of a holder's id tell one from another at a glance.
const shortHolder = 8

func holderText(s *host.Status, length int) string {
	text := host.Printable(s.Holder)
	switch {
	case s.Holder == "":
		text = "an unreadable record"
	case len(s.Holder) > length:
		text = host.Printable(strings.ToValidUTF8(s.Holder[:length], "")) + "…"
	}
	if s.Host != "" {
		text += " on " + host.Printable(s.Host)
	}
	return text
}

func (u *ui) width() int {
	if width, _, err := term.GetSize(int(u.file.Fd())); err == nil && width > 1 {
		return width
	}
	return 80
}

// clip keeps a line on one row, which is all that \r can take back.
func clip(line string, width int) string {
	runes := []rune(line)
	if len(runes) < width {
		return line
	}
	return string(runes[:width-1])
}

// logHandler prints the host's warnings for people.
type logHandler struct {
	ui    *ui
	attrs []slog.Attr
}

func (l *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (l *logHandler) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case host.MessageLeaseLost, host.MessagePermitLost, host.MessageContactLost, host.MessageOutage, host.MessageLeftToExpire:
		return nil // whoever has the lease says so, and what he does about it
	}
	var text strings.Builder
	text.WriteString(r.Message)
	show := func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%s", a.Key, host.Printable(a.Value.String()))
		return true
	}
	for _, a := range l.attrs {
		show(a)
	}
	r.Attrs(show)
	l.ui.printf("warning: %s", text.String())
	return nil
}

// WithAttrs leaves out which store it is: there is one.
func (l *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := append([]slog.Attr(nil), l.attrs...)
	for _, attr := range attrs {
		if attr.Key != "store" {
			with = append(with, attr)
		}
	}
	return &logHandler{ui: l.ui, attrs: with}
}

func (l *logHandler) WithGroup(string) slog.Handler { return l }
