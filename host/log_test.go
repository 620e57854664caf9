package host

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/store"
)

// tables are the indented lines of a file's package comment, each split where two
// blanks or more are.
func tables(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(file.Doc.Text()) {
		if !strings.HasPrefix(line, "\t") {
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// logCall is a call of what is called log: its level, its message, and what follows.
var (
	logCall = regexp.MustCompile(`(?s)\blog\.(Debug|Info|Warn|Error|Log)\((?:context\.Background\(\), level, )?(Message\w+|"[^"]*"),?(.*?)\)\n`)
	logKey  = regexp.MustCompile(`"(\w+)",`)
)

// Every line that is logged is in the package comment with its level and its keys, and
// every key has its meaning there; and nothing else is.
func TestLogTable(t *testing.T) {
	table, said, keys := map[string]string{}, map[string]string{}, map[string]bool{"store": true}
	meanings := map[string]bool{}
	for _, row := range tables(t, "log.go") {
		switch {
		case row[0] == "level":
		case strings.ToUpper(row[0]) == row[0]:
			table[row[1]] = row[0] + " " + strings.Join(row[2:], " ")
		default:
			meanings[row[0]] = len(row) == 2
		}
	}
	messages := map[string]string{
		"MessageLeaseLost": MessageLeaseLost, "MessagePermitLost": MessagePermitLost, "MessageLeftToExpire": MessageLeftToExpire,
		"MessageContactLost": MessageContactLost, "MessageOutage": MessageOutage,
	}
	files, err := filepath.Glob("*.go")
	same(t, "files", err, nil)
	more, err := filepath.Glob("internal/[tm]e*/*.go") // telemetry and memory
	same(t, "files", err, nil)
	for _, name := range append(files, more...) {
		source, err := os.ReadFile(name)
		same(t, "source", err, nil)
		for _, call := range logCall.FindAllStringSubmatch(string(source), -1) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			line := strings.ToUpper(strings.Replace(call[1], "Log", "WARN", 1)) // a loss is warned of, but for the session's
			for _, key := range logKey.FindAllStringSubmatch(call[3], -1) {
				line += " " + key[1]
				keys[key[1]] = true
			}
			message := strings.Trim(call[2], `"`)
			if constant, ok := messages[message]; ok {
				message = constant
			}
			said[message] = line
		}
	}
	same(t, "lines", said, table)
	for key := range keys {
		same(t, "meaning of "+key, meanings[key], true)
	}
	same(t, "keys", len(keys), len(meanings))
}

// lines are the lines of a log that were said at a level, without time and level.
func (l *logBuffer) lines(level string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if _, rest, ok := strings.Cut(line, " level="+level+" "); ok {
			found = append(found, strings.TrimSuffix(rest, "\n"))
		}
	}
	return found
}

// What an operator reads of leases that change hands, and what is metered of it: each end
// of each tenure is told once, and from whom the next has it. Where a Host hands over to
// its own waiter the time is exact; from another's holder it counts from the last look that
// still showed it; a dead one's is a take-over.
func TestLogOfHands(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, g := w.metered()
		other := w.host()
		protocol := "protocol=" + terms.Protocol.String()
		wait := func(p *actor) <-chan *Lease {
			got := beside(func() *Lease { return p.hold("n", terms) })
			w.sleep(3 * time.Second)
			return got
		}
		from := func(p *actor, want string) {
			w.Helper()
			w.sleep(time.Second)
			lines := slices.DeleteFunc(p.log.lines("INFO"), func(s string) bool { return !strings.Contains(s, `"lease acquired"`) })
			w.has(lines[len(lines)-1], `msg="lease acquired" name=n `+protocol+" holder=", " ttl=1m0s from="+want)
		}
		hand := func(l *Lease, got <-chan *Lease) (*Lease, float64) {
			begun := time.Now()
			w.ok(l.Release(background))
			l = <-got
			return l, time.Since(begun).Seconds()
		}
		l := p.hold("n", terms)
		from(p, "free")
		l, took := hand(l, wait(p))
		from(p, "here")
		here := "from=here " + protocol
		if sum, _, _ := g.sum("handover.duration", here); sum > took || sum < took/2 {
			w.Errorf("hand-over of %v, not %v", sum, took)
		}
		l, _ = hand(l, wait(other))
		from(other, "elsewhere")
		l, took = hand(l, wait(p))
		elsewhere := "from=elsewhere " + protocol
		g.is("handover.duration", elsewhere+" 1; "+here+" 1")
		if sum, _, _ := g.sum("handover.duration", elsewhere); sum > took+core.PollCap.Seconds()*1.2 {
			w.Errorf("hand-over of %v; it was %v", sum, took)
		}
		l, _ = hand(l, wait(other))
		g.is("takeovers", "")
		next := wait(p)
		other.store.always(fault{hang: true}) // it is dead
		<-next
		from(p, "dead")
		w.is(l.Err(), ErrLost)
		w.same("losses", len(other.log.lines("WARN")), 2) // the lease's, and the outage
		w.same("releases", strings.Count(p.log.String(), `"lease released"`), 3)
		g.is("takeovers", protocol+" 1")
		g.is("handover.duration", elsewhere+" 1; "+here+" 1")
	})
}

// An outage is two lines, however many requests it fails; and a single failure is none,
// nor is a store that fails every third request.
func TestLogOfOutage(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for i := range 5 {
			p.acquire(fmt.Sprint("n", i))
		}
		p.store.once("put", fault{class: core.ClassThrottled})
		w.sleep(30 * time.Second)
		asked := 0
		p.store.on(func(call) fault {
			if asked++; asked%3 == 0 {
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		w.sleep(5 * minute)
		w.same("warnings of single failures", len(p.log.lines("WARN")), 0)
		p.store.heal()
		w.sleep(minute)
		for range 2 {
			p.store.always(fault{class: core.ClassThrottled})
			w.sleep(35 * time.Second)
			p.store.heal()
			w.sleep(20 * time.Second)
		}
		w.same("failed", strings.Count(p.log.String(), `msg="request failed"`) > 10, true)
		warned := p.log.lines("WARN")
		w.same("told", len(warned), 2)
		if !strings.HasPrefix(warned[0], `msg="the store fails all reads, or all writes" verb=get class=throttled error="mopslock: `) ||
			strings.Contains(warned[0], "hunter2") {
			w.Error(warned[0])
		}
		w.same("over", strings.Count(p.log.String(), `msg="the store answers again" failed=`), 2)
	})
}

// A request that ends at its limit fails by silence, and not by what the store had said
// to the one before it.
func TestLogOfSilence(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.acquire("n")
		deaf, asked := make(chan struct{}), 0
		p.store.on(func(call) fault {
			if asked++; asked == 1 {
				return fault{class: core.ClassThrottled}
			}
			return fault{deaf: deaf}
		})
		w.sleep(minute)
		warned := p.log.lines("WARN")
		if len(warned) == 0 || !strings.Contains(warned[0], loop.ErrSilent.Error()) {
			w.Error(warned)
		}
		close(deaf)
	})
}

// A store without create-if-absent is no outage.
func TestLogOfAStoreWithoutCreate(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.on(func(c call) fault { return fault{none: c.verb == "create"} })
		l, err := p.Acquire(background, "n", nil)
		w.ok(err)
		w.same("protocol", l.Protocol(), core.ProtocolLastWriter)
		w.same("warned", strings.Join(p.log.lines("WARN"), "\n"), `msg="the store does not honour create-if-absent, `+
			`so leases are kept by lastwriter, without a fencing token" seen="the store says that it has none"`)
		w.same("over", strings.Contains(p.log.String(), "answers again"), false)
	})
}

// A driver that panics costs its request, and no lease: a holder renews by the next one.
// The stack is logged once, however often it happens.
func TestDriverPanics(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l := p.acquire("n")
		requests := 0
		p.store.on(func(call) fault {
			requests++
			return fault{panics: requests <= 3}
		})
		w.sleep(2 * minute)
		w.ok(l.Err())
		w.ok(l.Release(background))
		w.same("more than those that panicked", requests > 3, true)
		told := p.log.lines("ERROR")
		w.same("lines", len(told), 1)
		w.has(told[0], "its driver panicked: nil map in the SDK")
		w.has(told[0], "fakestore_test.go")
	})
}

// A Host that Close had no time for says what it leaves behind.
func TestLogOfClose(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.acquire("n")
		p.store.always(fault{hang: true})
		w.is(p.Close(w.limited(time.Second)), context.DeadlineExceeded)
		w.same("left", strings.Join(p.log.lines("WARN"), "\n"), `msg="closed before it was released; it expires by itself" name=n token=0`)
	})
}

// registerLogged is once, since a scheme is registered once a process.
var registerLogged = sync.OnceFunc(func() {
	store.Register("test-logged", func(context.Context, *store.Location) (store.Store, error) {
		return newFakeStore(newBackend()), nil
	})
})

// A Host that was opened by a URL names the store in each line, without its secrets.
func TestLogNamesTheStore(t *testing.T) {
	registerLogged()
	bubble(t, func(w *world) {
		var log logBuffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		h, err := Open(background, "test-logged://place?prefix=locks/&token=c0ffee", &Options{Memory: "-", Logger: logger})
		w.ok(err)
		l, err := h.Acquire(background, "n", nil)
		w.ok(err)
		w.ok(l.Release(background))
		w.ok(h.Close(background))
		for line := range strings.Lines(log.String()) {
			w.has(line, ` store="test-logged://place/locks?token=xxxxx" `)
		}
		w.same("lines", strings.Count(log.String(), "\n"), 3)
	})
}
