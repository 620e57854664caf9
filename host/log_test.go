package host

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// logCall is a line that some code says.
type logCall struct {
	at, level, message string // level is "" where it is decided there
	keys               []string
}

// logCalls are the calls of the package's sources to what is called log.
func logCalls(t *testing.T) (calls []logCall) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{
		"MessageLeaseLost": MessageLeaseLost, "MessagePermitLost": MessagePermitLost, "MessageLeftToExpire": MessageLeftToExpire,
		"MessageContactLost": MessageContactLost, "MessageOutage": MessageOutage,
	}
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		text := func(e ast.Expr) string {
			switch e := e.(type) {
			case *ast.Ident:
				return constants[e.Name]
			case *ast.BasicLit:
				s, _ := strconv.Unquote(e.Value)
				return s
			}
			return ""
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			verb, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isLog(verb.X) {
				return true
			}
			found := logCall{at: fset.Position(call.Pos()).String()}
			args := call.Args
			switch verb.Sel.Name {
			case "Debug", "Info", "Warn", "Error":
				found.level = strings.ToUpper(verb.Sel.Name)
			case "Log":
				args = args[2:]
			case "With":
				args = append([]ast.Expr{&ast.BasicLit{Value: `""`}}, args...)
			case "Enabled":
				return true
			default:
				t.Errorf("%s: log.%s: this test does not know it", found.at, verb.Sel.Name)
				return true
			}
			found.message = text(args[0])
			for i := 1; i < len(args); i += 2 {
				found.keys = append(found.keys, text(args[i]))
			}
			calls = append(calls, found)
			return true
		})
	}
	return calls
}

// isLog reports whether an expression is x.log, or log.
func isLog(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "log"
	case *ast.SelectorExpr:
		return e.Sel.Name == "log"
	}
	return false
}

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

// Every line that is logged is in the package comment with its level and its keys, and
// every key has its meaning there; and nothing else is.
func TestLogTable(t *testing.T) {
	type line struct{ level, keys string }
	lines, keys := map[string]line{}, map[string]bool{}
	for _, row := range tables(t, "log.go") {
		switch {
		case row[0] == "level":
		case strings.ToUpper(row[0]) == row[0]:
			lines[row[1]] = line{row[0], strings.Join(row[2:], " ")}
		default:
			keys[row[0]] = len(row) == 2
		}
	}
	said, used := map[string]bool{}, map[string]bool{}
	for _, call := range logCalls(t) {
		for _, key := range call.keys {
			used[key] = true
			if !keys[key] {
				t.Errorf("%s: key %q has no meaning in log.go", call.at, key)
			}
		}
		if call.message == "" { // With
			continue
		}
		said[call.message] = true
		want, ok := lines[call.message]
		switch got := strings.Join(call.keys, " "); {
		case !ok:
			t.Errorf("%s: %q is not in log.go", call.at, call.message)
		case got != want.keys || call.level != "" && call.level != want.level:
			t.Errorf("%s: %s %q with %s; log.go says %s with %s", call.at, call.level, call.message, got, want.level, want.keys)
		}
	}
	for message := range lines {
		if !said[message] {
			t.Errorf("nobody says %q", message)
		}
	}
	for key := range keys {
		if !used[key] {
			t.Errorf("nobody uses the key %s", key)
		}
	}
	if len(said) < 30 {
		t.Errorf("only %d lines found", len(said))
	}
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

// What an operator reads of leases that change hands: each end of each tenure is told
// once, and from whom the next has it.
func TestLogOfHands(t *testing.T) {
	for protocol, terms := range ways {
		t.Run(protocol, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, other := w.host(), w.host()
				acquire := func(p *party) *Lease {
					l, err := p.Acquire(background, "n", &AcquireOptions{Terms: terms})
					w.ok(err)
					return l
				}
				wait := func(p *party) chan *Lease {
					got := make(chan *Lease, 1)
					go func() { got <- acquire(p) }()
					w.sleep(3 * time.Second)
					return got
				}
				from := func(p *party, want string) {
					w.Helper()
					w.sleep(time.Second)
					lines := p.log.lines("INFO")
					lines = slices.DeleteFunc(lines, func(s string) bool { return !strings.Contains(s, `"lease acquired"`) })
					if last := lines[len(lines)-1]; !strings.HasSuffix(last, "ttl=1m0s from="+want) ||
						!strings.HasPrefix(last, `msg="lease acquired" name=n protocol=`+protocol+" holder=") {
						w.Errorf("%s; want from=%s", last, want)
					}
				}
				l := acquire(p)
				from(p, "free")
				next := wait(p)
				p.release(l)
				l = <-next
				from(p, "here")
				next = wait(other)
				p.release(l)
				l = <-next
				from(other, "elsewhere")
				next = wait(p)
				other.store.always(fault{hang: true}) // it is dead
				<-next
				from(p, "dead")
				w.is(l.Err(), ErrLost)
				w.same("losses", fmt.Sprint(len(other.log.lines("WARN"))), "2") // the lease's, and the outage
				w.same("releases", strings.Count(p.log.String(), `"lease released"`), 2)
			})
		})
	}
}

// An outage is two lines, however many requests it fails; and a single failure is none.
func TestLogOfOutage(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for i := range 5 {
			p.acquire(fmt.Sprint("n", i))
		}
		p.store.once("put", fault{class: core.ClassThrottled})
		w.sleep(30 * time.Second)
		w.same("warnings of one failure", len(p.log.lines("WARN")), 0)
		for range 2 {
			p.store.always(fault{class: core.ClassThrottled})
			w.sleep(35 * time.Second)
			p.store.heal()
			w.sleep(20 * time.Second)
		}
		w.same("failed", strings.Count(p.log.String(), `msg="request failed"`) > 10, true)
		warned := p.log.lines("WARN")
		w.same("told", len(warned), 2)
		if !strings.HasPrefix(warned[0], `msg="the store fails every request" verb=get class=throttled error="mopslock: `) ||
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
		if len(warned) == 0 || !strings.HasSuffix(warned[0], `error="`+errSilent.Error()+`"`) {
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

// A store that fails every third request is no outage.
func TestLogOfATiresomeStore(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.acquire("n")
		asked := 0
		p.store.on(func(call) fault {
			if asked++; asked%3 == 0 {
				return fault{class: core.ClassThrottled}
			}
			return fine
		})
		w.sleep(5 * minute)
		w.same("failed", strings.Count(p.log.String(), `msg="request failed"`) > 10, true)
		w.same("warnings", len(p.log.lines("WARN")), 0)
	})
}

// A Host that Close had no time for says what it leaves behind.
func TestLogOfClose(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.acquire("n")
		p.store.always(fault{hang: true})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		w.is(p.Close(ctx), context.DeadlineExceeded)
		w.same("left", strings.Join(p.log.lines("WARN"), "\n"), `msg="closed before it was released; it expires by itself" name=n token=0`)
	})
}

// registerLogged is once, since a scheme is registered once a process.
var registerLogged = sync.OnceFunc(func() {
	store.Register("test-logged", func(context.Context, *store.Location) (store.Store, error) {
		return newFakeStore(&shelf{objects: map[string]store.Object{}}), nil
	})
})

// A Host that was opened by a URL names the store in each line, without its secrets.
func TestLogNamesTheStore(t *testing.T) {
	registerLogged()
	bubble(t, func(w *world) {
		var log logBuffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		h, err := Open(background, "test-logged://place?prefix=locks/&token=c0ffee", &Options{Engine: engine, Memory: "-", Logger: logger})
		w.ok(err)
		l, err := h.Acquire(background, "n", nil)
		w.ok(err)
		w.ok(l.Release(background))
		w.ok(h.Close(background))
		for line := range strings.Lines(log.String()) {
			if !strings.Contains(line, ` store="test-logged://place/locks?token=xxxxx" `) {
				w.Error(line)
			}
		}
		w.same("lines", strings.Count(log.String(), "\n"), 3)
	})
}
