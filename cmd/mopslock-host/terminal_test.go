//go:build unix

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
)

const ctrlC, ctrlZ = "\x03", "\x1a"

// Waiting shows one live line, which is no longer than a row, and is cleared in the end. Ctrl-C ends the wait.
func TestLiveLine(t *testing.T) {
	const width = 60
	for name, types := range map[string]string{"served": "", "interrupt": ctrlC} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			holder := s.host("run", "n", "--", "sh", "-c", "echo >up; "+waits("enough"))
			s.comes("up")
			p := s.onTerminal(width, "mopslock-host", "run", "n", "--", "echo", "done")
			p.says("waiting for n: held by ")
			status, end := 0, "done\r\n"
			if types != "" {
				p.types(types)
				status, end = 128+int(syscall.SIGINT), ""
				p.mustExit(status)
			}
			s.write("enough", "")
			holder.mustExit(0)
			p.mustExit(status)
			before, found := strings.CutSuffix(p.out.String(), end)
			if !found || !strings.HasSuffix(before, "\r\x1b[K") || strings.Contains(before, "\n") {
				t.Errorf("not one live line, cleared before the end: %q", p.out)
			}
			for line := range strings.SplitSeq(before, "\r\x1b[K") {
				if columns := len([]rune(strings.TrimSuffix(line, "^C"))); columns >= width { // the terminal's echo
					t.Errorf("%d columns: %q", columns, line)
				}
			}
		})
	}
}

// On a terminal break shows whom it concerns and asks, and says before what may come of it. Whom it showed is broken, or
// nobody: not one who has come meanwhile.
func TestBreakAsks(t *testing.T) {
	for name, c := range map[string]struct {
		types, flags string
		status       int
		state, warns string
	}{
		"now":     {"yes\n", "--now", 0, "broken", "--now frees the name at once"},
		"enter":   {"\n", "", exit.StatusNothing, "held", ""},
		"ctrlC":   {ctrlC, "", 128 + int(syscall.SIGINT), "held", ""},
		"--yes":   {"", "--yes --now", 0, "broken", "--now frees the name at once"},
		"another": {"y\n", "--now", exit.StatusNotAcquired, "held", "--now frees the name at once"},
		"beside":  {"\n", "--protocol lastwriter --holder ", exit.StatusNothing, "held", "under lastwriter the name is free at once"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			first := s.host("acquire", "--ttl", "10m", "n")
			first.mustExit(0)
			if name == "beside" { // status shows the strict one
				old := s.host("acquire", "--ttl", "10m", "--protocol", "lastwriter", "n")
				old.mustExit(0)
				_, id, _ := strings.Cut(old.out.String(), `"holder":"`)
				c.flags += id[:strings.Index(id, `"`)]
			}
			p := s.onTerminal(80, append([]string{"mopslock-host", "break", "n", "--why", "it hangs"}, strings.Fields(c.flags)...)...)
			if c.types != "" {
				p.says("Break it? [y/N] ")
				if name == "another" {
					s.host("release", first.out.String()).mustExit(0)
					s.host("acquire", "--ttl", "10m", "n").mustExit(0)
				}
				p.types(c.types)
			}
			p.mustExit(c.status)
			before, _, asked := strings.Cut(p.out.String(), "Break it?")
			if asked == (c.types == "") || asked && !strings.Contains(before, "state      held") ||
				!strings.Contains(before, c.warns) {
				t.Errorf("asked %v: %q", asked, p.out)
			}
			if state := s.state("n"); !strings.Contains(state, `"state":"`+c.state+`"`) {
				t.Errorf("%s, not %s", state, c.state)
			}
		})
	}
}

// A long search shows how far it is. A signal ends it: 128+N, the line is cleared, nothing is printed, and what was drawn
// before is still there. A bound of time ends it too, and is told.
func TestSignalEndsASearch(t *testing.T) {
	for words, shows := range map[string]string{
		"explore --states 100000000": "explored ", "explore --states 100000000 --svg old.svg": "explored ", "simulate --seeds 1000000 --svg new.svg": "played ",
	} {
		t.Run(words, func(t *testing.T) {
			s := newScene(t)
			s.write("old.svg", "drawn before\n")
			p := s.onTerminal(80, append([]string{"mopslock-host"}, strings.Fields(words)...)...)
			p.says(shows)
			p.signal(syscall.SIGTERM)
			p.mustExit(128 + int(syscall.SIGTERM))
			if text := p.out.String(); !strings.HasSuffix(text, "\r\x1b[K") || strings.Contains(text, "\n") {
				t.Errorf("more than a live line, which was cleared: %q", text)
			}
			if exists(s.path("new.svg")) || s.read("old.svg") != "drawn before\n" {
				t.Error("something was drawn")
			}
		})
	}
	t.Run("bound", func(t *testing.T) {
		s := newScene(t)
		p := s.host("explore", "--for", "50ms")
		p.mustExit(0)
		p.says("cut at the bound of time")
	})
}

func (s *scene) shell() *process {
	s.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		s.Skip(err)
	}
	return s.onTerminal(80, bash, "--norc", "--noprofile", "-i")
}

// Ctrl-Z stops the renewals with the command. Once another holds the lease, fg ends the command: 76, and it does not run
// another instruction; with --on-loss continue it goes on to its own end. The command starts no process: a shell that
// waits for a stopped vfork is not stopped itself, and an interactive shell, or we, would wait for its stop forever.
func TestCtrlZBeyondTheDeadline(t *testing.T) {
	for _, onLoss := range []string{"terminate", "continue"} {
		t.Run(onLoss, func(t *testing.T) {
			s := newScene(t)
			p := s.shell()
			p.types("mopslock-host run --on-loss " + onLoss + " --ttl 3s n -- sh -c 'echo $$ >pid; while ! test -e enough; do echo >>ran; done'\n")
			pid := s.pidIn("pid")
			p.types(ctrlZ)
			p.says("stopped; the lease is not renewed meanwhile")
			p.says("Stopped")
			s.host("run", "--ttl", "60s", "n", "--", "true").mustExit(0)
			ran := len(s.read("ran"))
			p.types("fg; echo status-$?\n")
			if onLoss == "continue" {
				s.eventually("the command goes on", func() bool { return len(s.read("ran")) > ran })
				s.write("enough", "")
			}
			p.says("status-76")
			s.gone(pid)
			if onLoss == "terminate" && len(s.read("ran")) != ran {
				t.Error("the command ran on")
			}
		})
	}
}
