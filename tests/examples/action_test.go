//go:build linux || darwin

package examples

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// job is one of GitHub's jobs that uses the action: its steps get what the runner gives them.
type job struct {
	*stage
	temp   string // RUNNER_TEMP, from the stage's directory
	inputs map[string]string
}

const theRun = "https://github.com/o/r/actions/runs/7"

var (
	anInput   = regexp.MustCompile(`(?m)^  ([a-z-]+):(?: #.*)?\n((?:    .*\n)+)`)
	aDefault  = regexp.MustCompile(`(?m)^    default: (.*)$`)
	jobStatus = "${{ job.status }}"
)

// job makes one, with the defaults of action.yml.
func (s *stage) job(inputs map[string]string) *job {
	s.Helper()
	s.needsNode()
	text, err := os.ReadFile(filepath.Join(root, ".github/actions/run/action.yml"))
	if err != nil {
		s.Fatal(err)
	}
	block, _, _ := strings.Cut(string(text), "outputs:\n")
	j := &job{stage: s, temp: fmt.Sprintf("temp-%d", len(s.read("jobs"))), inputs: map[string]string{}}
	s.write("jobs", s.read("jobs")+".")
	for _, match := range anInput.FindAllStringSubmatch(block, -1) {
		j.inputs[match[1]] = ""
		if found := aDefault.FindStringSubmatch(match[2]); found != nil {
			j.inputs[match[1]] = found[1]
		}
	}
	inputs = maps.Clone(inputs)
	inputs["store"] = s.store()
	for name, value := range inputs {
		if _, ok := j.inputs[name]; !ok {
			s.Fatalf("action.yml has no input %s", name)
		}
		j.inputs[name] = value
	}
	if err := os.Mkdir(filepath.Join(s.dir, j.temp), 0o700); err != nil {
		s.Fatal(err)
	}
	return j
}

// step begins a step of the action, while the job has a status. What it prints is in a file of that name.
func (j *job) step(name, status string, runner ...string) *process {
	j.Helper()
	script, err := filepath.Abs(filepath.Join(root, ".github/actions/run/run.js"))
	if err != nil {
		j.Fatal(err)
	}
	return j.startWith(func(c *exec.Cmd) {
		for input, value := range j.inputs {
			c.Env = append(c.Env, "INPUT_"+strings.ToUpper(input)+"="+strings.ReplaceAll(value, jobStatus, status))
		}
		for line := range strings.Lines(j.read(j.temp + "/state")) {
			c.Env = append(c.Env, "STATE_"+strings.TrimSpace(line))
		}
		c.Env = append(c.Env, "MOPSLOCK_STORE=", "RUNNER_TEMP="+filepath.Join(j.dir, j.temp), "GITHUB_STATE="+j.temp+"/state", "GITHUB_OUTPUT="+j.temp+"/output",
			"GITHUB_SERVER_URL=https://github.com", "GITHUB_REPOSITORY=o/r", "GITHUB_RUN_ID=7")
		file, err := os.Create(filepath.Join(j.dir, j.temp, name))
		if err != nil {
			j.Fatal(err)
		}
		j.Cleanup(func() { _ = file.Close() })
		c.Stdout = file
		if len(runner) > 0 {
			if _, err := c.StdinPipe(); err != nil { // it ends with the test
				j.Fatal(err)
			}
		}
	}, append(runner, "node", script)...)
}

// begins is the main step, which holds what was asked. It returns the fencing token.
func (j *job) begins() int {
	j.Helper()
	j.exits(j.step("main", "success"), 0)
	return j.holds()
}

// holds are the outputs of a main step that holds.
func (j *job) holds() int {
	j.Helper()
	found := regexp.MustCompile(`^held=true\ntoken=([1-9]\d*)\n$`).FindStringSubmatch(j.read(j.temp + "/output"))
	if found == nil {
		j.Fatalf("%q", j.read(j.temp+"/output"))
	}
	token, _ := strconv.Atoi(found[1])
	return token
}

// outputs checks those of another main step.
func (j *job) outputs(want string) {
	j.Helper()
	if got := j.read(j.temp + "/output"); got != want {
		j.Errorf("%q, want %q", got, want)
	}
}

// ends is the post step, after a job with a status; what it prints matches must.
func (j *job) ends(status string, exit int, must string) {
	j.Helper()
	j.exits(j.step("post", status), exit)
	j.says("post", must)
}

// says waits until a step has said something.
func (j *job) says(step, must string) {
	j.Helper()
	j.eventually(must, func() bool { return regexp.MustCompile(must).MatchString(j.read(j.temp + "/" + step)) })
}

// is waits until a name is in a state, and returns what status says of it.
func (s *stage) is(name, state string) (seen struct{ State, Label string }) {
	s.Helper()
	s.eventually(state, func() bool {
		look := exec.Command(filepath.Join(binaries, "mopslock-host"), "status", "--json", "--store", s.store(), name)
		look.Env = environment()
		out, _ := look.Output()
		return json.Unmarshal(out, &seen) == nil && seen.State == state
	})
	return seen
}

// pid is mopslock-host's.
func (j *job) pid() int {
	j.Helper()
	found := regexp.MustCompile(`(?m)^pid=(\d+)$`).FindStringSubmatch(j.read(j.temp + "/state"))
	if found == nil {
		j.Fatal("no pid")
	}
	pid, _ := strconv.Atoi(found[1])
	return pid
}

// TestNodeActionLease: a lease is held from the main step to the post step, says which run holds it, and excludes the command
// and another job, which says what it waits for and gets the next token.
func TestNodeActionLease(t *testing.T) {
	s := newStage(t)
	first, second := s.job(map[string]string{"name": "deploy"}), s.job(map[string]string{"name": "deploy", "wait": "1h", "ttl": "20s", "protocol": "strict"})
	token := first.begins()
	s.exits(s.start("mopslock-host", "run", "--wait", "0", "deploy", "--", "touch", "ran"), 75)
	waits := second.step("main", "success")
	second.says("main", `^::stop-commands::\S+\nmopslock-host: waiting for deploy, held by .*\n::\S+::\n$`)
	if label := s.is("deploy", "held").Label; label != theRun {
		t.Errorf("label %q", label)
	}
	first.ends("failure", 0, `deploy: ended`)
	s.exits(waits, 0)
	if next := second.holds(); next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	second.ends("success", 0, `deploy: ended`)
	s.is("deploy", "released")
}

// TestNodeActionRefused: a job that does not get what it asks for says why, and its post step ends well, with nothing left to do.
func TestNodeActionRefused(t *testing.T) {
	s := newStage(t)
	holder := s.job(map[string]string{"name": "deploy"})
	holder.begins()
	for _, c := range []struct{ input, value, says string }{
		{"wait", "0", `::error title=mopslock::deploy: not acquired within the wait \(status 75, held\)\. .*held by `},
		{"ttl", "soon", `::error title=mopslock::deploy: an input is not valid \(status 64, .*\). .*invalid argument "soon"`},
		{"mode", "hope", `::error title=mopslock::deploy: mode "hope" is not lease, permit or once`},
		{"mode", "permit", `::error title=mopslock::deploy: an input is not valid \(status 64, .*capacity`},
		{"store", "", `::error title=mopslock::deploy: store is missing`},
		{"name", "a\n::warning::b", `::error title=mopslock::a%0A::warning::b: an input is not valid`},
		{"command", "mopslock-guest", `::error title=mopslock::deploy: mopslock-guest cannot be started \(ENOENT\)`},
		{"command", "true", `::error title=mopslock::deploy: mopslock-host ended by status 0`},
	} {
		j := s.job(map[string]string{"name": "deploy"})
		j.inputs[c.input] = c.value
		main := j.step("main", "success")
		s.exits(main, 1)
		j.says("main", c.says)
		j.outputs("")
		j.ends("failure", 0, `^$`)
	}
	holder.ends("success", 0, `deploy: ended`)
}

// TestNodeActionUnsaid: a main step that cannot tell the job that it holds gives back what it holds.
func TestNodeActionUnsaid(t *testing.T) {
	s := newStage(t)
	j := s.job(map[string]string{"name": "deploy"})
	if err := os.Mkdir(filepath.Join(s.dir, j.temp, "output"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.exits(j.step("main", "success"), 1)
	j.says("main", `::error .*EISDIR`)
	s.is("deploy", "released")
}

// TestNodeActionCancelled: a job that is cancelled while it waits ends its wait.
func TestNodeActionCancelled(t *testing.T) {
	s := newStage(t)
	holder, j := s.job(map[string]string{"name": "deploy"}), s.job(map[string]string{"name": "deploy"})
	holder.begins()
	waits := j.step("main", "success")
	j.says("main", `waiting for deploy`)
	_ = waits.Process.Signal(syscall.SIGINT)
	s.exits(waits, 1)
	j.says("main", `the wait was cancelled`)

	// Nor does it wait on if it was killed before it could tell.
	k := s.job(map[string]string{"name": "deploy"})
	waits = k.step("main", "success")
	k.says("main", `waiting for deploy`)
	_ = waits.Process.Kill()
	<-waits.done
	k.ends("cancelled", 0, `mopslock-host: `)
	holder.ends("success", 0, `deploy: ended`)
	s.is("deploy", "released")
}

// TestNodeActionPermit: as many jobs as the limit says have a permit at a time.
func TestNodeActionPermit(t *testing.T) {
	s := newStage(t)
	inputs := map[string]string{"name": "runners", "mode": "permit", "limit": "2", "wait": "0"}
	first, second, third := s.job(inputs), s.job(inputs), s.job(inputs)
	first.begins()
	second.begins()
	s.exits(third.step("main", "success"), 1)
	third.says("main", `status 75`)
	first.ends("success", 0, `runners: ended`)
	fourth := s.job(inputs)
	fourth.begins()
	second.ends("success", 0, `runners: ended`)
	fourth.ends("success", 0, `runners: ended`)
}

// TestNodeActionOnce: a job that fails or is cancelled has not done the work, so the next one is to do it. From then on, jobs hear who did it.
func TestNodeActionOnce(t *testing.T) {
	s := newStage(t)
	inputs := map[string]string{"name": "v1", "mode": "once"}
	failed, next := s.job(inputs), s.job(inputs)
	failed.begins()
	waits := next.step("main", "success")
	next.says("main", `waiting for v1`)
	failed.ends("failure", 0, `v1: not done, since the job's status is failure`)
	s.exits(waits, 0)
	next.holds()
	next.ends("cancelled", 0, `v1: not done, since the job's status is cancelled`)

	does := s.job(inputs)
	does.begins()
	does.ends("success", 0, `v1: ended`)
	skips := s.job(inputs)
	s.exits(skips.step("main", "success"), 0)
	skips.outputs("held=false\n")
	skips.says("main", `v1: done before, by `+theRun)
	skips.ends("success", 0, `^$`)

	// What a command has left as its result is not the runner's to obey.
	s.exits(s.start("mopslock-host", "once", "v2", "--", "printf", `x\n::warning::y`), 0)
	other := s.job(map[string]string{"name": "v2", "mode": "once"})
	s.exits(other.step("main", "success"), 0)
	other.says("main", `(?s)^::stop-commands::(\S+)\nv2: done before, by x\n::warning::y\n::\S+::\n$`)
}

// TestNodeActionLost: a post step fails, and says why, if the lease was broken meanwhile or mopslock-host was killed.
func TestNodeActionLost(t *testing.T) {
	s := newStage(t)
	broken := s.job(map[string]string{"name": "deploy", "ttl": "3s"})
	broken.begins()
	s.exits(s.start("mopslock-host", "break", "deploy", "--why", "stuck", "--yes"), 0)
	s.eventually("its end", func() bool { return syscall.Kill(broken.pid(), 0) != nil })
	broken.ends("success", 1, `::error title=mopslock::deploy: lost before the job had ended, .* \(status 76, broken\)`)

	killed := s.job(map[string]string{"name": "other"})
	killed.begins()
	_ = syscall.Kill(killed.pid(), syscall.SIGKILL)
	killed.ends("success", 1, `::error title=mopslock::other: mopslock-host was killed`)
}

// TestNodeActionRunnerKilled: no lease outlives the runner of its job, though it has no TTL.
func TestNodeActionRunnerKilled(t *testing.T) {
	s := newStage(t)
	inputs := map[string]string{"name": "deploy", "ttl": "0"}
	runner := []string{"sh", "-c", `"$@"; echo $? >main-ended; cat`, "runner"}
	holds := s.job(inputs)
	killed := holds.step("main", "success", runner...)
	s.eventually("its lease", func() bool { return s.read("main-ended") == "0\n" })
	s.is("deploy", "held")

	// The other one's main step lives on, and its waiter finds no runner.
	waits := s.job(inputs)
	other := waits.step("main", "success", runner...)
	waits.says("main", `waiting for deploy`)
	_ = other.Process.Kill()
	<-other.done
	_ = killed.Process.Kill()
	waits.says("main", `mopslock-host failed \(status 1, exited\)`)
	s.is("deploy", "released")
	waits.outputs("")

	// A container does not see its runner, and sees that the runner's next job empties RUNNER_TEMP.
	emptied := s.job(inputs)
	emptied.begins()
	s.is("deploy", "held")
	if err := os.RemoveAll(filepath.Join(s.dir, emptied.temp)); err != nil {
		t.Fatal(err)
	}
	s.is("deploy", "released")
}
