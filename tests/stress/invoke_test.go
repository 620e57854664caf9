//go:build linux || darwin

package stress

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const invokeTTL = 2 * time.Second

// invocation is one name on a store of its own, with the files of those who
// work on it.
type invocation struct {
	url, name, dir string
	flags          []string
}

func newInvocation(t *testing.T, protocol string, round int) *invocation {
	return &invocation{
		url: store(t), name: fmt.Sprintf("stress/invoke-%d", round), dir: t.TempDir(),
		flags: []string{"--protocol", protocol, "--ttl", invokeTTL.String()},
	}
}

func (v *invocation) path(name string) string { return filepath.Join(v.dir, name) }

// invoke starts `mopslock-host invoke`, whose result goes to a file named who.
// words are the launcher's.
func (v *invocation) invoke(t *testing.T, who string, words ...string) *process {
	t.Helper()
	argv := append([]string{binary, "invoke", "--store", v.url}, v.flags...)
	argv = append(append(argv, v.name, "--", self, invokeMark), words...)
	return start(t, intoFile(v.path(who), argv...)...)
}

// launching is the launcher whose remote does the job, and stands at the gate.
func (v *invocation) launching(who string) []string {
	return append([]string{"launch", v.path(who + ".log"), binary, "remote", v.name, "--"}, v.job()...)
}

func (v *invocation) job() []string {
	return []string{self, invokeMark, "job", v.path("jobs"), v.path("gate")}
}

// openGate lets the jobs come to their ends.
func (v *invocation) openGate(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(v.path("gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// executions is how many jobs have begun.
func (v *invocation) executions(t *testing.T) []entry {
	t.Helper()
	return slices.DeleteFunc(readLog(t, v.path("jobs")), func(e entry) bool { return e.what != "begin" })
}

func (v *invocation) printed(t *testing.T, who string) string {
	t.Helper()
	text, err := os.ReadFile(v.path(who))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// intoFile is argv with its stdout in a file, under the same process id.
func intoFile(file string, argv ...string) []string {
	return append([]string{"sh", "-c", `exec "$@" >"$0"`, file}, argv...)
}

// mustEndWell waits for the status 0.
func mustEndWell(t *testing.T, who string, p *process) {
	t.Helper()
	if status := p.status(t, 10*invokeTTL+20*time.Second); status != 0 {
		t.Fatalf("%s ended with %d: %s", who, status, p.stderr.String())
	}
}

// mustKill kills a process that is there for sure.
func mustKill(t *testing.T, who string, pid int) {
	t.Helper()
	if pid <= 0 {
		t.Fatalf("%s has not started", who)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("killing %s: %v", who, err)
	}
}

// rounds plays a story under each protocol, again and again until its time is up.
func rounds(t *testing.T, story func(t *testing.T, v *invocation)) {
	eachProtocol(t, func(t *testing.T, protocol string, d time.Duration, _ bool) {
		n := 0
		for end := time.Now().Add(d); n == 0 || time.Now().Add(4*invokeTTL).Before(end); n++ {
			if story(t, newInvocation(t, protocol, n)); t.Failed() {
				return
			}
		}
		figures(t, "%d rounds", n)
	})
}

// TestRemoteDelayed: an orchestrator dies before its remote has started. The
// remote starts when another orchestrator's is at work, and once more when its
// result is there: it ends quietly, and nothing runs twice.
//
//	invoke A    held ─ launch ─ SIGKILL
//	its remote                      · · · · · · · · · · · · · join: taken ─ 0      0
//	invoke B         waits ──────────── TTL ── held ─ launch ─────────── result
//	its remote                                        join ─ job ─────── stores
func TestRemoteDelayed(t *testing.T) { rounds(t, remoteDelayed) }

func remoteDelayed(t *testing.T, v *invocation) {
	a := v.invoke(t, "a", "park", v.path("a.log"), v.path("lease"))
	eventually(t, 10*time.Second, "A has launched", func() bool {
		_, ok := find(t, v.path("a.log"), "launcher")
		return ok
	})
	launcher, _ := find(t, v.path("a.log"), "launcher")
	t.Cleanup(func() {
		b, _ := find(t, v.path("b.log"), "remote")
		stop(b.pid)
	})
	b := v.invoke(t, "b", v.launching("b")...)
	mustKill(t, "invoke A", a.pid())
	mustKill(t, "A's launcher", launcher.pid)
	eventually(t, 10*invokeTTL+20*time.Second, "B's job runs", func() bool { return len(v.executions(t)) > 0 })

	late := func(when string) {
		t.Helper()
		lease := v.printed(t, "lease")
		argv := append([]string{binary, "remote", "--lease", lease, v.name, "--"}, v.job()...)
		p := start(t, intoFile(v.path("late"), argv...)...)
		mustEndWell(t, "the remote that came "+when, p)
		if out := v.printed(t, "late"); out != "" {
			t.Errorf("the remote that came %s printed %q", when, out)
		}
		if n := len(v.executions(t)); n != 1 {
			t.Fatalf("the remote that came %s ran its job: %d executions", when, n)
		}
	}
	late("while another is at work")
	v.openGate(t)
	mustEndWell(t, "invoke B", b)
	late("when the result was there")
	ran := v.executions(t)[0]
	if got, want := v.printed(t, "b"), fmt.Sprintf("worked out by process %d\n", ran.pid); got != want {
		t.Errorf("B printed %q, and its job %q", got, want)
	}
}

// TestOrchestratorAndRemoteKilled: with both gone nobody keeps the lease alive. It
// expires, and who waits gets a result, with no human.
//
//	invoke A     held ─ launch ─────── SIGKILL
//	its remote                 join ── SIGKILL
//	invoke B          waits ──────────────── TTL ── held ─ launch ─ result
func TestOrchestratorAndRemoteKilled(t *testing.T) { rounds(t, bothKilled) }

func bothKilled(t *testing.T, v *invocation) {
	a := v.invoke(t, "a", v.launching("a")...)
	t.Cleanup(func() {
		for _, who := range []string{"a.log", "b.log"} {
			remote, _ := find(t, v.path(who), "remote")
			if !gone(remote.pid) {
				stop(remote.pid)
			}
		}
	})
	eventually(t, 10*time.Second, "A's job runs", func() bool { return len(v.executions(t)) > 0 })
	first := v.executions(t)[0]
	b := v.invoke(t, "b", v.launching("b")...)
	launcher, _ := find(t, v.path("a.log"), "launcher")
	remote, _ := find(t, v.path("a.log"), "remote")
	mustKill(t, "invoke A", a.pid())
	mustKill(t, "A's launcher", launcher.pid)
	mustKill(t, "A's remote", remote.pid)
	stop(first.pid) // where a killed mopslock-host does not take its command with it
	if n := len(v.executions(t)); n != 1 {
		t.Fatalf("%d executions before the kill", n)
	}
	v.openGate(t)
	mustEndWell(t, "invoke B", b)
	ran := v.executions(t)
	if len(ran) != 2 || ran[0].pid == ran[1].pid {
		t.Fatalf("after the kill there are %d executions, not the killed one and one more", len(ran))
	}
	if got, want := v.printed(t, "b"), fmt.Sprintf("worked out by process %d\n", ran[1].pid); got != want {
		t.Errorf("B printed %q, and its job %q", got, want)
	}
}

// TestInvokeAtOnce: two dozen `mopslock-host invoke` of one name begin together.
// One launches, all print the same.
func TestInvokeAtOnce(t *testing.T) {
	eachProtocol(t, func(t *testing.T, protocol string, _ time.Duration, _ bool) {
		const callers = 24
		v := newInvocation(t, protocol, 0)
		v.flags = []string{"--protocol", protocol, "--ttl", "10s"}
		if protocol == "lastwriter" {
			v.flags = append(v.flags, "--acquire-margin", "1s")
		}
		var all []*process
		for i := range callers {
			all = append(all, v.invoke(t, fmt.Sprint(i), v.launching(fmt.Sprint(i))...))
		}
		t.Cleanup(func() {
			for i := range all {
				remote, _ := find(t, v.path(fmt.Sprint(i)+".log"), "remote")
				if _, ended := find(t, v.path("jobs"), "end"); !ended {
					stop(remote.pid)
				}
			}
		})
		eventually(t, 20*time.Second, "one has launched", func() bool { return len(v.executions(t)) > 0 })
		v.openGate(t)
		for i, p := range all {
			mustEndWell(t, fmt.Sprint("invoke ", i), p)
		}
		ran := v.executions(t)
		if len(ran) != 1 {
			t.Fatalf("%d executions", len(ran))
		}
		want := fmt.Sprintf("worked out by process %d\n", ran[0].pid)
		for i := range all {
			if got := v.printed(t, fmt.Sprint(i)); got != want {
				t.Errorf("invoke %d printed %q, not %q", i, strings.TrimSpace(got), strings.TrimSpace(want))
			}
		}
	})
}
