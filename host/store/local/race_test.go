package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mopslock/mopslock/host/store"
)

var emptyEvent fsnotify.Event

// raceDir, in the environment, makes this test binary one racer of
// TestCreateRaceOfProcesses.
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

// TestCreateRaceOfProcesses: exactly one of four processes wins each round,
// and the body is the winner's.
func TestCreateRaceOfProcesses(t *testing.T) {
	const processes = 4
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
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
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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

// Benchmarks: each verb beside the bare system calls that it cannot do without.

var body = []byte(strings.Repeat("x", 200))

func BenchmarkPut(b *testing.B) {
	s := open(b, b.TempDir())
	for b.Loop() {
		if err := s.Put(context.Background(), "n/lock.json", body, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutUnderDeadline(b *testing.B) {
	s := open(b, b.TempDir())
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for b.Loop() {
		if err := s.Put(ctx, "n/lock.json", body, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutBare(b *testing.B) {
	temp := b.TempDir() + "/temp"
	path := temp + "-to"
	for b.Loop() {
		writeBare(b, temp, false)
		if err := os.Rename(temp, path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, b.TempDir())
	if err := s.Put(context.Background(), "n/lock.json", body, ""); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Get(context.Background(), "n/lock.json"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetBare(b *testing.B) {
	path := b.TempDir() + "/k"
	writeBare(b, path, false)
	for b.Loop() {
		if _, err := os.ReadFile(path); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	s := open(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		if err := s.Create(context.Background(), fmt.Sprintf("n/%d", i), body, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCreateVersion makes a directory for each object, as a register does.
func BenchmarkCreateVersion(b *testing.B) {
	s := open(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		if err := s.Create(context.Background(), fmt.Sprintf("n/%d/v", i), body, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateBare(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		temp := dir + "/temp"
		writeBare(b, temp, true)
		if err := os.Link(temp, fmt.Sprintf("%s/%d", dir, i)); err != nil {
			b.Fatal(err)
		}
		if err := syncDir(dir); err != nil {
			b.Fatal(err)
		}
		os.Remove(temp)
	}
}

func BenchmarkCreateLost(b *testing.B) {
	s := open(b, b.TempDir())
	if err := s.Create(context.Background(), "n/v", body, ""); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.Create(context.Background(), "n/v", body, ""); !errors.Is(err, store.ErrExists) {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	s := open(b, b.TempDir())
	for i := range 4 {
		for _, key := range []string{"v", "b.owner"} {
			if err := s.Put(context.Background(), fmt.Sprintf("n/_mopslock/%016x/%s", i, key), body, ""); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		if page, _, err := s.List(context.Background(), "n/_mopslock/", "", 4); err != nil || len(page) != 4 {
			b.Fatal(err)
		}
	}
}

func BenchmarkExists(b *testing.B) {
	s := open(b, b.TempDir())
	for b.Loop() {
		if there, err := s.Exists(context.Background(), "n/_mopslock/ff/v"); there || err != nil {
			b.Fatal(err)
		}
	}
}

func writeBare(b *testing.B, path string, durable bool) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = f.Write(body)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}
