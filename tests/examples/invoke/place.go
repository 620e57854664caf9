//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// place is the directory of one show:
//
//	store/            what mopslock keeps
//	journal           who did what, one line each: WHAT JOB PROCESS
//	hold/WHO-JOB      while it is there, WHO (launcher or job) stands still
//	results/PID/JOB   what the orchestrator of this process id got
//	log               what all of them said on stderr
type place string

func jobName(n int) string { return fmt.Sprintf("jobs/%02d", n) }

func jobNumber(name string) (int, error) {
	return strconv.Atoi(strings.TrimPrefix(name, "jobs/"))
}

func (p place) path(words ...string) string {
	return filepath.Join(append([]string{string(p)}, words...)...)
}

// note is one write to a file opened for appending, so that the lines of many
// processes do not mix, and a kill leaves no half line.
func (p place) note(what, name string) error {
	journal, err := os.OpenFile(p.path("journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(journal, "%s %s %d\n", what, name, os.Getpid())
	return errors.Join(err, journal.Close())
}

// keep stores what an orchestrator got.
func (p place) keep(name string, result []byte) error {
	file := p.path("results", strconv.Itoa(os.Getpid()), name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, result, 0o600); err != nil {
		return err
	}
	return p.note("got", name)
}

func (p place) holdFile(who, name string) string {
	return p.path("hold", who+"-"+filepath.Base(name))
}

func (p place) hold(who, name string) error {
	return os.WriteFile(p.holdFile(who, name), nil, 0o600)
}

func (p place) letGo(who, name string) error { return os.Remove(p.holdFile(who, name)) }

// passHold returns once nothing holds us; a show that is over has no holds.
func (p place) passHold(who, name string) error {
	return poll("the hold on "+who+" "+name+" is lifted", func() (bool, error) {
		_, err := os.Lstat(p.holdFile(who, name))
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	})
}

// patience bounds every wait here; a show takes a few seconds.
const patience = 2 * time.Minute

func poll(what string, ok func() (bool, error)) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		done, err := ok()
		switch {
		case done || err != nil:
			return err
		case time.Now().After(end):
			return fmt.Errorf("not within %v: %s", patience, what)
		}
	}
}

// history is what the journal has of one job: the processes that did each thing.
type history struct {
	launched, began, ended []int
	got                    []int // orchestrators that have its result
}

func (p place) histories(jobs int) ([]history, error) {
	all := make([]history, jobs)
	text, err := os.ReadFile(p.path("journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			continue // being written
		}
		if err := tell(all, strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("the journal's line %q: %w", line, err)
		}
	}
	return all, nil
}

func tell(all []history, words []string) error {
	if len(words) != 3 {
		return errors.New("it does not have three words")
	}
	n, errName := jobNumber(words[1])
	pid, errPID := strconv.Atoi(words[2])
	if err := errors.Join(errName, errPID); err != nil {
		return err
	}
	switch h := &all[n]; words[0] {
	case "launched":
		h.launched = append(h.launched, pid)
	case "began":
		h.began = append(h.began, pid)
	case "ended":
		h.ended = append(h.ended, pid)
	case "got":
		h.got = append(h.got, pid)
	}
	return nil
}
