//go:build linux || darwin

package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// inCluster is a stage with the files that the Job's image would have. work is the text
// of ./work.sh.
func inCluster(t *testing.T, work string) *stage {
	s := newStage(t)
	s.write("fetch.sh", "#!/bin/sh\nmkdir -p \"$1\" && echo 42 >\"$1/number\"\n")
	s.write("work.sh", "#!/bin/sh\n"+work+"\n")
	return s
}

// invoke starts the command of the folder's README on a name.
func (s *stage) invoke(name string) *process {
	s.Helper()
	text, err := os.ReadFile("kubernetes/README.md")
	command := regexp.MustCompile(`(?m)^mopslock-host invoke .*-- \./launcher\.sh job\.yaml`).FindString(string(text))
	dir, errDir := filepath.Abs("kubernetes")
	if err := errors.Join(err, errDir); err != nil || command == "" {
		s.Fatalf("there is no command: %v", err)
	}
	words := strings.Fields(command)
	words[slices.Index(words, "--")-1] = name
	for i := len(words) - 2; i < len(words); i++ {
		words[i] = filepath.Join(dir, words[i])
	}
	return s.start(words...)
}

// mustHave checks how many manifests there are.
func (s *stage) mustHave(want int, pattern string) {
	s.Helper()
	if jobs, err := filepath.Glob(filepath.Join(s.dir, pattern)); err != nil || len(jobs) != want {
		s.Errorf("there are the Jobs %q: %v", jobs, err)
	}
}

// TestLauncherAndJob: the Job gets name and lease unchanged, with any characters in the
// name, and its result comes back; a second call makes no other Job.
func TestLauncherAndJob(t *testing.T) {
	s := inCluster(t, `echo "the answer is $(cat "$1/number")"`)
	for range 2 {
		p := s.invoke(`reports/o'neil & "co"|$(MOPSLOCK_LEASE) $$1: é`)
		s.exits(p, 0)
		if out := p.out.String(); out != "the answer is 42\n" {
			t.Fatalf("%q", out)
		}
	}
	s.mustHave(1, "remote-*.yaml")
}

// TestJobFails: the launcher sees that the Job has failed, invoke ends with 70, and the
// next call makes another Job.
func TestJobFails(t *testing.T) {
	s := inCluster(t, "exit 3")
	for made := 1; made <= 2; made++ {
		p := s.invoke("reports/failing")
		s.exits(p, 70)
		if p.out.Len() > 0 || !strings.Contains(p.said.String(), "has failed") {
			t.Errorf("%q: %s", p.out.String(), p.said.String())
		}
		s.mustHave(made, "remote-*.yaml")
	}
}

// TestCancelled: SIGTERM to invoke ends the Job before the lease is released.
func TestCancelled(t *testing.T) {
	s := inCluster(t, "touch working; while ! test -e enough; do sleep 0.02; done")
	p := s.invoke("reports/cancelled")
	t.Cleanup(func() { s.write("enough", "") }) // the pod's end
	s.eventually("the work", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "working"))
		return err == nil
	})
	_ = p.Process.Signal(syscall.SIGTERM)
	<-p.done
	if p.ProcessState.Success() {
		t.Error("the status is 0, with no result")
	}
	s.mustHave(1, "remote-*.yaml.deleted")
	status := s.start("mopslock-host", "status", "reports/cancelled")
	s.exits(status, 1)
	if !strings.Contains(status.out.String(), "released") {
		t.Errorf("the lease is not released: %s", status.out.String())
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
		if err := json.Unmarshal([]byte(command[1]), &argv); err != nil { // YAML that is also JSON
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
