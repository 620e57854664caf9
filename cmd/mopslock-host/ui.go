package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
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
	forResult bool              // it waits for a result,
	past      []time.Duration   // for which others took so long
	occupancy *report.Occupancy // or for a permit; nil: for a lease
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
			u.printf("waiting for %s, %s", name, report.Waiting(&s))
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
func (u *ui) waitingForPermit(name string, full *report.Occupancy, s host.Status) {
	if u.file == nil {
		u.printf("waiting for a permit of %s, which %s: %s", host.Printable(name), full.WhyFull(&s), full.Text(&s, false))
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
	u.forResult = true
	u.mu.Unlock()
	var once sync.Once
	return func(s host.Status) {
		u.waitingFor(name, s)
		once.Do(func() {
			go func() { // ends with the store's one answer, or with the process
				if took, err := ask(); err == nil {
					u.mu.Lock()
					defer u.mu.Unlock()
					u.past = took
				}
			}()
		})
	}
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
		fmt.Fprint(u.out, u.occupancy.Line(u.name, u.wait, u.width()))
	case u.forResult:
		fmt.Fprint(u.out, report.ComputingLine(u.name, u.wait, u.past, ago, u.width()))
	default:
		fmt.Fprint(u.out, report.WaitingLine(u.name, u.wait, ago, u.width()))
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
	fmt.Fprint(u.out, report.Clip(fmt.Sprintf(format, args...), u.width()))
	u.live = true
}

func (u *ui) width() int {
	if width, _, err := term.GetSize(int(u.file.Fd())); err == nil && width > 1 {
		return width
	}
	return 80
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
