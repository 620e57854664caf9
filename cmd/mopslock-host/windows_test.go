//go:build windows

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mopslock/mopslock/host/store"
)

// bound ends a test that hangs; nothing else is asserted about time.
const bound = time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mopslock-host": main, "work": work})
}

// work is what is run under a lease: `work WORD ARGUMENT…`.
func work() {
	words := os.Args[2:]
	switch os.Args[1] {
	case "env":
		for _, name := range words {
			fmt.Println(os.Getenv(name))
		}
	case "say":
		fmt.Printf("%q\n", words)
	case "exit":
		status, _ := strconv.Atoi(words[0])
		os.Exit(status)
	case "until": // FILE, when it has made BEGUN
		_ = os.WriteFile(words[1], nil, 0o666)
		if !eventually(words[0], "") {
			_ = os.WriteFile("outlived", nil, 0o666)
			os.Exit(99)
		}
	case "child": // WORD ARGUMENT…: in a process of its own
		child := exec.Command(os.Args[0], words...)
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		_ = child.Run()
	}
}

// eventually waits for a file with a text in it.
func eventually(path, text string) bool {
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if found, err := os.ReadFile(path); err == nil && strings.Contains(string(found), text) {
			return true
		}
	}
	return false
}

// TestWindows: the commands as users run them, real processes on a directory.
func TestWindows(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/windows",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(5 * bound), // only ends what hangs
		Setup: func(env *testscript.Env) error {
			at := store.Location{Scheme: "file", Dir: filepath.Join(env.WorkDir, "store")}
			env.Vars = append(env.Vars, "MOPSLOCK_STORE="+at.String(), "LOCALAPPDATA="+env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				var failed *exec.ExitError
				if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &failed) || strconv.Itoa(failed.ExitCode()) != args[0] {
					ts.Fatalf("%v, want %s", err, args[0])
				}
			},
			"waitfor": func(ts *testscript.TestScript, _ bool, args []string) {
				if !eventually(ts.MkAbs(args[0]), strings.Join(args[1:], " ")) {
					ts.Fatalf("%s never came", args[0])
				}
			},
		},
	})
}
