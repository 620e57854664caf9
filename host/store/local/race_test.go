package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/mopslock/mopslock/host/store"
)

// raceDir, in the environment, makes this test binary one racer of
// TestHammerCreateRaceOfProcesses.
const raceDir = "MOPSLOCK_TEST_RACE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(raceDir); dir != "" {
		if err := racer(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// racer creates the key of each line that it reads, and answers won or lost.
func racer(dir string, in io.Reader, out io.Writer) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer := "won"
		err := s.Create(context.Background(), lines.Text(), fmt.Append(nil, os.Getpid()), "")
		if errors.Is(err, store.ErrExists) {
			answer = "lost"
		} else if err != nil {
			return err
		}
		fmt.Fprintln(out, answer)
	}
	return nil
}

// TestHammerCreateRaceOfProcesses: exactly one of four processes wins each round, and the
// body is the winner's.
func TestHammerCreateRaceOfProcesses(t *testing.T) {
	const processes, rounds = 4, 200
	dir := t.TempDir()
	s := open(t, dir)
	type process struct {
		pid string
		in  io.Writer
		out *bufio.Scanner
	}
	var all []process
	for range processes {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), raceDir+"="+dir)
		cmd.Stderr = os.Stderr
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		must(t, errIn, errOut, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			_ = cmd.Wait()
		})
		all = append(all, process{fmt.Sprint(cmd.Process.Pid), in, bufio.NewScanner(out)})
	}
	for round := range rounds {
		key := fmt.Sprintf("r/%03d/v", round)
		for _, p := range all {
			fmt.Fprintln(p.in, key)
		}
		var winners []string
		for _, p := range all {
			if !p.out.Scan() {
				t.Fatalf("round %d: a racer is gone", round)
			}
			if p.out.Text() == "won" {
				winners = append(winners, p.pid)
			}
		}
		object, err := s.Get(t.Context(), key)
		if err != nil || len(winners) != 1 || string(object.Body) != winners[0] {
			t.Fatalf("round %d: winners %v, body %q, %v", round, winners, object.Body, err)
		}
	}
	noTemps(t, dir)
}
