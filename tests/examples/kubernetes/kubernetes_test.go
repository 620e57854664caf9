//go:build linux || darwin

// Package kubernetes has a Job for `mopslock-host remote` and a launcher for
// `mopslock-host invoke`, and tests of both without a cluster.
package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binaries is where mopslock-host and a stand-in for kubectl are; TestMain sets
// it once.
var binaries string

// TestMain plays kubectl under that name: the test binary is linked to it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl(os.Args[1:]))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mopslock-kubernetes-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "mopslock-host"), "github.com/mopslock/mopslock/cmd/mopslock-host")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building mopslock-host: %v\n%s", err, out)
		return 1
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "kubectl"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binaries = dir
	return m.Run()
}

// TestFlagsExist: every flag of mopslock-host that the files use is one.
func TestFlagsExist(t *testing.T) {
	use := regexp.MustCompile(`mopslock-host",? "?(invoke|remote|accompany)\b(.*?) "?--[" ]`)
	flag := regexp.MustCompile(`--[a-z-]+`)
	seen := 0
	for _, file := range []string{"job.yaml", "launcher.sh", "README.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.ReplaceAll(string(text), "mopslock-host invoke", `mopslock-host" invoke`)
		for _, found := range use.FindAllStringSubmatch(lines, -1) {
			seen++
			help, err := exec.Command(filepath.Join(binaries, "mopslock-host"), found[1], "--help").CombinedOutput()
			if err != nil {
				t.Fatalf("%s --help: %v: %s", found[1], err, help)
			}
			for _, name := range flag.FindAllString(found[2], -1) {
				if !regexp.MustCompile(name + `\b`).Match(help) {
					t.Errorf("%s: mopslock-host %s has no flag %s", file, found[1], name)
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d command lines found", seen)
	}
}

// scene is a directory with a store and what the image of the Job would have.
type scene struct{ dir string }

// work is the text of ./work.sh.
func newScene(t *testing.T, work string) *scene {
	t.Helper()
	s := &scene{t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"fetch.sh": `mkdir -p "$1" && echo 42 >"$1/number"`, "work.sh": work} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// invoke runs README's command on a name, and returns its status and output.
func (s *scene) invoke(t *testing.T, name string) (status int, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	cmd := s.command(t, name)
	cmd.Stdout, cmd.Stderr = &out, &said
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

// command is README's on a name.
func (s *scene) command(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	words := []string{"invoke", "--protocol", "strict", "--ttl", "30s", "--on-loss", "continue", name, "--"}
	for _, file := range []string{"launcher.sh", "job.yaml"} {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, path)
	}
	cmd := exec.Command(filepath.Join(binaries, "mopslock-host"), words...)
	cmd.Dir, cmd.Env = s.dir, append(environment(), "MOPSLOCK_STORE="+s.store(), "PATH="+binaries+":"+os.Getenv("PATH"))
	return cmd
}

func (s *scene) store() string { return "file://" + filepath.Join(s.dir, "store") }

// environment is ours, without a lease that we may have.
func environment() (env []string) {
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "MOPSLOCK_") {
			env = append(env, line)
		}
	}
	return env
}

// TestLauncherAndJob: the Job gets name and lease as they are, whatever is in the
// name, and its result comes back; a second call makes no other Job.
func TestLauncherAndJob(t *testing.T) {
	s := newScene(t, `echo "the answer is $(cat "$1/number")"`)
	const name = `reports/o'neil & "co"|$(MOPSLOCK_LEASE) $$1: é`
	for range 2 {
		status, out, said := s.invoke(t, name)
		if status != 0 || out != "the answer is 42\n" {
			t.Fatalf("status %d, %q: %s", status, out, said)
		}
	}
	if jobs, err := filepath.Glob(filepath.Join(s.dir, "remote-*.yaml")); err != nil || len(jobs) != 1 {
		t.Errorf("there are the Jobs %q: %v", jobs, err)
	}
}

// TestJobFails: the launcher sees it, invoke ends with 70, and the next call makes
// another Job.
func TestJobFails(t *testing.T) {
	s := newScene(t, "exit 3")
	for made := 1; made <= 2; made++ {
		status, out, said := s.invoke(t, "reports/failing")
		if status != 70 || out != "" || !strings.Contains(said, "has failed") {
			t.Errorf("status %d, %q: %s", status, out, said)
		}
		if jobs, err := filepath.Glob(filepath.Join(s.dir, "remote-*.yaml")); err != nil || len(jobs) != made {
			t.Errorf("there are the Jobs %q: %v", jobs, err)
		}
	}
}

// TestCancelled: who ends invoke ends the Job before the lease is released.
func TestCancelled(t *testing.T) {
	s := newScene(t, "touch working; exec sleep 60")
	const name = "reports/cancelled"
	var said bytes.Buffer
	cmd := s.command(t, name)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.dir, "working")); err == nil {
			break
		}
		if time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatalf("the work has not begun: %v: %s", cmd.Wait(), said.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the status is 0, with no result")
	}
	if jobs, err := filepath.Glob(filepath.Join(s.dir, "remote-*.yaml.deleted")); err != nil || len(jobs) != 1 {
		t.Errorf("deleted are the Jobs %q: %v: %s", jobs, err, said.String())
	}
	out, err := exec.Command(filepath.Join(binaries, "mopslock-host"), "status", "--store", s.store(), name).CombinedOutput()
	if !strings.Contains(string(out), "released") {
		t.Errorf("the lease is not released: %v: %s", err, out)
	}
}

// kubectl stands in for a cluster, in the working directory: `create` keeps the
// manifest and loses its answer, and the first `wait` runs the pod.
func kubectl(args []string) int {
	var err error
	switch {
	case len(args) == 3 && args[0] == "create":
		err = createJob()
	case len(args) == 2 && args[0] == "get": // get job/NAME
		_, err = os.Stat(manifestOf(args[1]))
	case len(args) == 5 && args[0] == "get": // get job/NAME --ignore-not-found -o jsonpath=… of the Failed condition
		err = printFailed(args[1])
	case len(args) == 4 && args[0] == "wait": // wait --for=condition=complete --timeout=T job/NAME
		err = runPod(args[3])
	case len(args) == 6 && args[0] == "delete": // delete job NAME …
		err = os.Rename(manifestOf(args[2]), manifestOf(args[2])+".deleted")
	default:
		err = fmt.Errorf("unexpected: %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubectl:", err)
		return 1
	}
	return 0
}

func manifestOf(job string) string { return strings.TrimPrefix(job, "job/") + ".yaml" }

func createJob() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	name := regexp.MustCompile(`(?m)^  name: ([a-z0-9-]{1,63})$`).FindSubmatch(text)
	if name == nil {
		return errors.New("the Job has no name that a pod's could be made of")
	}
	file, err := os.OpenFile(manifestOf(string(name[1])), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return errors.Join(file.Close(), errors.New("the connection was lost; the Job is there all the same"))
}

func printFailed(job string) error {
	_, err := os.Stat(manifestOf(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // --ignore-not-found
	}
	failed := ""
	if _, err := os.Stat(manifestOf(job) + ".failed"); err == nil {
		failed = "True"
	}
	fmt.Printf("%s %s", strings.TrimPrefix(job, "job/"), failed)
	return err
}

// runPod runs the containers in turn, with the environment and the arguments that
// Kubernetes would make of the manifest.
func runPod(job string) error {
	text, err := os.ReadFile(manifestOf(job))
	if err != nil {
		return err
	}
	expand := strings.NewReplacer("$$", "$")
	env := environment()
	variables := []string{"$$", "$"}
	for _, found := range regexp.MustCompile(`- name: (MOPSLOCK_\w+).*\n +value: '(.*)'`).FindAllStringSubmatch(string(text), -1) {
		value := expand.Replace(strings.ReplaceAll(found[2], "''", "'"))
		env = append(env, found[1]+"="+value)
		variables = append(variables, "$("+found[1]+")", value)
	}
	for _, command := range regexp.MustCompile(`(?m)^ +command: (\[.*\])$`).FindAllStringSubmatch(string(text), -1) {
		var argv []string
		if err := json.Unmarshal([]byte(command[1]), &argv); err != nil { // YAML that is JSON, too
			return err
		}
		for i := range argv {
			argv[i] = strings.NewReplacer(variables...).Replace(argv[i])
			argv[i] = strings.Replace(argv[i], "/tmp/", "./tmp/", 1) // the pod's own
		}
		container := exec.Command(argv[0], argv[1:]...)
		container.Env, container.Stdout, container.Stderr = env, os.Stderr, os.Stderr
		if err := container.Run(); err != nil {
			return errors.Join(err, os.WriteFile(manifestOf(job)+".failed", nil, 0o600))
		}
	}
	return nil
}
