//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
)

// job is a command of a world: a word of sh, or sh itself. It hears signals as a process does, between and within words
// that wait.
type job struct {
	world          *world
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
	ctx            context.Context
	cancel         context.CancelCauseFunc
	done           chan struct{}
	status         child.Status

	mu     sync.Mutex
	traps  map[syscall.Signal]string
	caught []string      // traps that are due
	wake   chan struct{} // one is
	within []*program    // that it waits for
	behind []*job        // in the background
	exited bool
	isHost bool // by exec, or from the beginning
	last   int
}

// killed is why a job's context ends.
type killed struct{ by syscall.Signal }

func (k killed) Error() string { return k.by.String() }

func newJob(w *world, env []string, stdin io.Reader, stdout, stderr io.Writer) *job {
	j := &job{world: w, env: env, stdin: stdin, stdout: stdout, stderr: stderr, done: make(chan struct{}), wake: make(chan struct{}, 1), traps: map[syscall.Signal]string{}}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	return j
}

func (j *job) Done() <-chan struct{} { return j.done }
func (j *job) Status() child.Status  { return j.status }
func (j *job) Close()                { j.cancel(nil) }
func (j *job) Terminate() error      { j.signal(syscall.SIGTERM); return nil }
func (j *job) Kill() error           { j.signal(syscall.SIGKILL); return nil }

// Others are the jobs in its background.
func (j *job) Others() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.behind, func(b *job) bool {
		select {
		case <-b.done:
			return false
		default:
			return true
		}
	})
}

// signal is for the job and all of its group.
func (j *job) signal(sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.within {
		go p.signal(min(sig, syscall.SIGTERM)) // a killed one is told to end
	}
	for _, b := range j.behind {
		go b.signal(sig)
	}
	trap, trapped := j.traps[sig]
	switch {
	case sig == syscall.SIGKILL || !trapped && sig != syscall.SIGWINCH && sig != syscall.SIGCONT:
		j.cancel(killed{sig})
	case trap != "":
		j.caught = append(j.caught, trap)
		select {
		case j.wake <- struct{}{}:
		default:
		}
	}
}

// run is a command's life; the status is -1 of what a signal has ended.
func (j *job) run(argv []string) child.Status {
	j.isHost = argv[0] == "mopslock-host"
	code := j.word(argv)
	if by, ok := context.Cause(j.ctx).(killed); ok && !j.exited && !j.isHost {
		return child.Status{Signal: by.by}
	}
	return child.Status{Code: code}
}

// over reports whether nothing more is to be run. It runs traps.
func (j *job) over() bool {
	for {
		j.mu.Lock()
		var trap string
		if len(j.caught) > 0 {
			trap, j.caught = j.caught[0], j.caught[1:]
		}
		j.mu.Unlock()
		if trap == "" {
			return j.exited || j.ctx.Err() != nil
		}
		j.script(trap)
	}
}

// until waits; it is called again and again, and reports whether what is waited for has come.
func (j *job) until(holds func() bool, pace time.Duration) int {
	for !j.over() {
		if holds() {
			return 0
		}
		pause := time.NewTimer(pace)
		select {
		case <-pause.C:
		case <-j.wake:
		case <-j.ctx.Done():
		}
		pause.Stop()
	}
	return j.last
}

// script runs commands in the words of a shell: ; && || & quotes $NAME $(…) > >> 2> <. Its status is that of the last.
func (j *job) script(text string) int {
	for text != "" && !j.over() {
		if loop := forLoop.FindStringSubmatch(text); loop != nil {
			for _, value := range j.expand(loop[2], j.files()) {
				j.env = append(slices.Clone(j.env), loop[1]+"="+value)
				j.script(loop[3])
			}
			text = loop[4]
			continue
		}
		command, separator, rest := nextCommand(text)
		if text = rest; strings.TrimSpace(command) == "" {
			continue
		}
		if separator == "&" {
			b := newJob(j.world, j.env, j.stdin, j.stdout, j.stderr)
			b.traps = j.traps
			j.mu.Lock()
			j.behind = append(j.behind, b)
			j.mu.Unlock()
			j.world.running.Go(func() {
				b.script(command)
				close(b.done)
			})
			continue
		}
		if separator == "|" {
			var out bytes.Buffer
			before := *j.files()
			j.stdout = &out
			j.command(command)
			j.setFiles(&before)
			j.stdin = &out
			defer j.setFiles(&before)
			continue
		}
		j.last = j.command(command)
		for skip := map[string]bool{"&&": j.last != 0, "||": j.last == 0}; skip[separator]; {
			_, separator, text = nextCommand(text)
		}
	}
	return j.last
}

var forLoop = regexp.MustCompile(`(?s)^\s*for ([a-z]+) in (.*?); do (.*?); done(.*)$`)

// nextCommand cuts a command off, and what separates it from the rest.
func nextCommand(text string) (command, separator, rest string) {
	quote, depth := byte(0), 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
		case c == '\\':
			i++
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && (c == '(' || c == '{'):
			depth++
		case quote == 0 && (c == ')' || c == '}'):
			depth--
		case quote != 0 || depth > 0:
		case c == '&' && (i > 0 && text[i-1] == '>'):
		case strings.HasPrefix(text[i:], "&&"), strings.HasPrefix(text[i:], "||"):
			return text[:i], text[i : i+2], text[i+2:]
		case c == ';' || c == '\n' || c == '&' || c == '|':
			return text[:i], text[i : i+1], text[i+1:]
		}
	}
	return text, "", ""
}

// command runs one, with its files and assignments.
func (j *job) command(text string) int {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{ ") || strings.HasPrefix(text, "(") {
		return j.script(strings.TrimRight(text[1:], "})"))
	}
	if rest, ok := strings.CutPrefix(text, "! "); ok {
		if j.command(rest) == 0 {
			return 1
		}
		return 0
	}
	as := *j.files()
	words := j.expand(text, &as)
	for len(words) > 0 && assignment.MatchString(words[0]) {
		as.env = append(slices.Clone(as.env), words[0])
		words = words[1:]
	}
	if len(words) == 0 {
		j.env = as.env
		return 0
	}
	before := *j.files()
	j.setFiles(&as)
	defer j.setFiles(&before)
	return j.word(words)
}

var assignment = regexp.MustCompile(`^[A-Z_0-9]+=`)

// files is what one command has of its own.
type files struct {
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (j *job) files() *files { return &files{j.env, j.stdin, j.stdout, j.stderr} }
func (j *job) setFiles(f *files) {
	j.env, j.stdin, j.stdout, j.stderr = f.env, f.stdin, f.stdout, f.stderr
}

// expand makes words of a command, and opens its files.
func (j *job) expand(text string, as *files) (words []string) {
	var word strings.Builder
	open, to := false, ""
	end := func() {
		switch {
		case open && to != "":
			as.redirect(to, word.String())
			to = ""
		case open:
			words = append(words, word.String())
		}
		open = false
		word.Reset()
	}
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'' && c != '\'':
			word.WriteByte(c)
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case c == '\\' && i+1 < len(text):
			if i++; quote != 0 && !strings.ContainsRune("\"$`\\", rune(text[i])) {
				word.WriteByte(c)
			}
			word.WriteByte(text[i])
			open = true
		case c == '$':
			value, length := j.value(text[i:])
			word.WriteString(value)
			open = open || quote != 0 || value != ""
			i += length - 1
		case quote != 0:
			word.WriteByte(c)
		case c == '>' || c == '<':
			number := word.String()
			word.Reset()
			open = false
			to = number + string(c)
			if i+1 < len(text) && text[i+1] == c {
				to += ">"
				i++
			}
		case c == ' ' || c == '\t' || c == '\n':
			end()
		default:
			word.WriteByte(c)
			open = true
		}
	}
	end()
	return words
}

func (as *files) redirect(how, name string) {
	flags := map[string]int{">": os.O_WRONLY | os.O_CREATE | os.O_TRUNC, ">>": os.O_WRONLY | os.O_CREATE | os.O_APPEND}
	switch how {
	case "<":
		body, _ := os.ReadFile(name)
		as.stdin = bytes.NewReader(body)
		return
	}
	var out io.Writer
	switch name {
	case "&1":
		out = as.stdout
	case "&2":
		out = as.stderr
	default:
		file, err := os.OpenFile(name, flags[strings.TrimPrefix(how, "2")], 0o666)
		if err != nil {
			panic(err)
		}
		out = file // closed with the test's process
	}
	if how[0] == '2' {
		as.stderr = out
	} else {
		as.stdout = out
	}
}

// value is what a $ stands for, and how long it is.
func (j *job) value(text string) (value string, length int) {
	if strings.HasPrefix(text, "$(") {
		depth := 0
		for i := range text {
			switch text[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					var out bytes.Buffer
					inner := newJob(j.world, j.env, j.stdin, &out, j.stderr)
					j.last = inner.script(text[2:i])
					return strings.TrimRight(out.String(), "\n"), i + 1
				}
			}
		}
	}
	name := regexp.MustCompile(`^\$([A-Za-z_]+|[?$])`).FindString(text)
	switch name {
	case "":
		return "$", 1
	case "$?":
		value = strconv.Itoa(j.last)
	case "$$":
		value = "self"
	default:
		for _, line := range j.env {
			if v, ok := strings.CutPrefix(line, name[1:]+"="); ok {
				value = v
			}
		}
	}
	return value, len(name)
}

// word runs what is no shell's word as a program would.
func (j *job) word(argv []string) int {
	name, args := argv[0], argv[1:]
	switch name {
	case "true", ":":
	case "false":
		return 1
	case "exit":
		code, _ := strconv.Atoi(strings.Join(args, ""))
		j.exited = true
		return j.exit(code)
	case "eval":
		return j.command(strings.Join(args, " "))
	case "exec":
		j.isHost = args[0] == "mopslock-host"
		code := j.word(args)
		j.exited = j.isHost || j.ctx.Err() == nil
		return j.exit(code)
	case "sh":
		return j.script(args[1])
	case "echo":
		fmt.Fprintln(j.stdout, strings.Join(args, " "))
	case "words": // what it was given
		for _, arg := range args {
			fmt.Fprintf(j.stdout, "[%s]\n", arg)
		}
		_, _ = io.Copy(j.stdout, j.stdin)
	case "trap":
		j.trap(args[0], args[1:])
	case "kill":
		j.signal(unix.SignalNum("SIG" + strings.TrimPrefix(args[0], "-")))
	case "sleep":
		return j.sleep(args[0])
	case "await":
		return j.until(func() bool { return slices.ContainsFunc(args, exists) }, 20*time.Millisecond)
	case "sh-object", "object":
		return j.object(args)
	case "store":
		j.world.setStore(args)
	case "mopslock-host":
		return j.host(args)
	default:
		return j.program(argv)
	}
	return 0
}

// program runs a real one, which is over in no time.
func (j *job) program(argv []string) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), j.env...), j.stdout, j.stderr
	if slices.Contains([]string{"cat", "tr", "sed", "grep"}, argv[0]) { // from others package os/exec would take it all the same
		cmd.Stdin = j.stdin
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(j.stderr, "sh:", err)
		return child.StatusNotFound
	}
	return cmd.ProcessState.ExitCode()
}

func (j *job) exit(code int) int {
	j.last = code
	return code
}

func exists(name string) bool {
	found, err := filepath.Glob(name)
	return err == nil && len(found) > 0
}

func (j *job) trap(script string, signals []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range signals {
		j.traps[unix.SignalNum("SIG"+name)] = script
	}
}

func (j *job) sleep(text string) int {
	if !strings.HasSuffix(text, "s") {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(d)
	return j.until(func() bool { return !time.Now().Before(end) }, d)
}

// host runs a mopslock-host that the job waits for.
func (j *job) host(args []string) int {
	p := j.world.launch(j.env, j.stdin, j.stdout, j.stderr, args)
	j.mu.Lock()
	j.within = append(j.within, p)
	j.mu.Unlock()
	over := j.ctx.Done()
	if j.isHost { // the signals are its own
		over = nil
	}
	select {
	case <-p.ended:
	case <-over:
		return 0
	}
	j.mu.Lock()
	j.within = slices.DeleteFunc(j.within, func(other *program) bool { return other == p })
	j.mu.Unlock()
	return p.status
}
