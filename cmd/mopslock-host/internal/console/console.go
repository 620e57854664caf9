// Package console writes for people: lines on stderr, above at most one live line of a terminal that
// says what the command waits for.
//
// A reader that has stopped reading delays nothing: no method waits for it longer than a moment.
package console

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/report"
	"github.com/mopslock/mopslock/host"
)

// Console is stderr, with at most one live line at its end.
type Console struct {
	out      *nonBlockingWriter
	terminal *os.File // nil: no live line

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

// New returns the Console that writes to out. The terminal is where out is shown, or nil: see Terminal.
func New(out io.Writer, terminal *os.File) *Console {
	return &Console{out: &nonBlockingWriter{to: out}, terminal: terminal}
}

// Terminal returns the terminal that out is, or nil.
func Terminal(out io.Writer) *os.File {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// OnTerminal reports whether the live line is shown.
func (c *Console) OnTerminal() bool { return c.terminal != nil }

// Flush waits until all is written, but not long. It is for the very end.
func (c *Console) Flush() { c.out.flush(flushPatience) }

// Logger prints the host's warnings as lines.
func (c *Console) Logger() *slog.Logger { return slog.New(&logHandler{console: c}) }

// Printf prints a line that begins with the name of the program.
func (c *Console) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.out, "mopslock-host: "+format+"\n", args...)
}

// Plainf prints a line as it is.
func (c *Console) Plainf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.out, format+"\n", args...)
}

// Prompt prints a question, and leaves the cursor behind it.
func (c *Console) Prompt(question string) { fmt.Fprint(c.out, question) }

// clear removes the live line.
func (c *Console) clear() {
	if c.live {
		fmt.Fprint(c.out, "\r\x1b[K")
		c.live = false
	}
}

// WaitingFor shows the holder that the command waits for: in the live line of a terminal, and
// otherwise in a line for each holder and for its end. The host calls it, so it must not block.
func (c *Console) WaitingFor(name string, s host.Status) {
	if c.terminal == nil {
		c.mu.Lock()
		news := c.wait == nil || c.wait.Holder != s.Holder || c.wait.State != s.State // otherwise a renewal
		c.wait = &s
		c.mu.Unlock()
		if news {
			c.Printf("waiting for %s, %s", name, report.Waiting(&s))
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name, c.wait, c.at = name, &s, time.Now()
	c.draw(c.at)
	if c.stop == nil {
		c.stop, c.done = make(chan struct{}), make(chan struct{})
		go c.tick(c.stop, c.done)
	}
}

// WaitingForPermit shows who holds the permits that the command waits for.
func (c *Console) WaitingForPermit(name string, full *report.Occupancy, s host.Status) {
	if c.terminal == nil {
		c.Printf("waiting for a permit of %s, which %s: %s", host.Printable(name), full.WhyFull(&s), full.Text(&s, false))
		return
	}
	c.mu.Lock()
	c.occupancy = full
	c.mu.Unlock()
	c.WaitingFor(name, s)
}

// StillWaiting updates the live line, if there is one.
func (c *Console) StillWaiting(s host.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.wait, c.at = &s, time.Now()
		c.draw(c.at)
	}
}

// Computing returns the WaitingFor of a command that waits for a result. On a terminal it calls ask
// once, in a goroutine of its own: how long did others take?
func (c *Console) Computing(name string, ask func() ([]time.Duration, error)) func(host.Status) {
	if c.terminal == nil {
		return func(s host.Status) { c.WaitingFor(name, s) }
	}
	c.mu.Lock()
	c.forResult = true
	c.mu.Unlock()
	var once sync.Once
	return func(s host.Status) {
		c.WaitingFor(name, s)
		once.Do(func() {
			go func() { // ends with ask, or with the process
				if took, err := ask(); err == nil {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.past = took
				}
			}()
		})
	}
}

// tick redraws the live line once a second.
func (c *Console) tick(stop, done chan struct{}) {
	defer close(done)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			c.mu.Lock()
			c.draw(now)
			c.mu.Unlock()
		}
	}
}

func (c *Console) draw(now time.Time) {
	c.clear()
	switch ago := now.Sub(c.at); {
	case c.occupancy != nil:
		fmt.Fprint(c.out, c.occupancy.Line(c.name, c.wait, c.width()))
	case c.forResult:
		fmt.Fprint(c.out, report.ComputingLine(c.name, c.wait, c.past, ago, c.width()))
	default:
		fmt.Fprint(c.out, report.WaitingLine(c.name, c.wait, ago, c.width()))
	}
	c.live = true
}

// StopWaiting removes the live line, and ends what keeps it up to date.
func (c *Console) StopWaiting() {
	c.mu.Lock()
	stop, done := c.stop, c.done
	c.stop = nil
	c.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

// Progress shows in the live line how far a long search is.
func (c *Console) Progress(format string, args ...any) {
	if c.terminal == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprint(c.out, report.Clip(fmt.Sprintf(format, args...), c.width()))
	c.live = true
}

func (c *Console) width() int {
	if width, _, err := term.GetSize(int(c.terminal.Fd())); err == nil && width > 1 {
		return width
	}
	return 80
}
