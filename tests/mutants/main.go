// Mutants breaks lines of core and host one at a time, and lists those that no test notices.
//
// A line is broken by one small edit: an operator is swapped, a boolean turned round, a statement left out.
// The tests see it through an overlay of the go command; the tree itself is not touched. First the
// tests of the line's own package run, then those of the packages that stand on it. An edit that does
// not compile is passed over. Tests that hang for two minutes have noticed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// The stores of the clouds need servers, and are not broken here; nor is the suite for stores, which is a test.
var clouds = map[string]bool{"host/store/s3": true, "host/store/gs": true, "host/store/azblob": true, "host/store/cloud": true, "host/store/storetest": true}

// What runs where a line's own package has noticed nothing.
var above = map[string][]string{
	"core": {"./core/...", "./tests/explore", "./tests/simulate", "./host"},
	"host": {"./host", "./host/fence", "./host/trace", "./host/doctor", "./host/store/local", "./host/store/mem"},
}

func main() {
	n := flag.Int("n", 200, "how many lines are broken, half of them in core and half in host")
	seed := flag.String("seed", "1", "which lines")
	workers := flag.Int("workers", 2, "how many are tried at once")
	flag.Parse()
	if err := run(*n, *seed, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(n int, seed string, workers int) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, root := range []string{"core", "host"} {
		drawn, err := changes(seed, []string{root})
		if err != nil {
			return err
		}
		caught, unseen := tryAll(dir, root, drawn, n/2, workers)
		fmt.Printf("%s: %d of %d caught\n", root, caught, caught+len(unseen))
		for _, c := range unseen {
			fmt.Println("NOT NOTICED", c)
		}
	}
	return nil
}

// tryAll tries the changes in their order until n of them have compiled.
func tryAll(dir, root string, drawn []change, n, workers int) (caught int, unseen []change) {
	var mu sync.Mutex
	var group sync.WaitGroup
	next, done := 0, 0
	for range workers {
		group.Go(func() {
			for {
				mu.Lock()
				if done == n || next == len(drawn) {
					mu.Unlock()
					return
				}
				c := drawn[next]
				next, done = next+1, done+1
				mu.Unlock()
				verdict := try(dir, root, c)
				mu.Lock()
				switch verdict {
				case "caught":
					caught++
				case "unseen":
					unseen = append(unseen, c)
				default:
					done--
				}
				fmt.Fprintln(os.Stderr, verdict, c)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return caught, unseen
}

// try says whether a change was "caught", stayed "unseen", or is "no program".
func try(dir, root string, c change) string {
	source, err := os.ReadFile(c.file)
	if err != nil {
		return err.Error()
	}
	place, err := os.MkdirTemp(dir, "")
	if err != nil {
		return err.Error()
	}
	whole, _ := filepath.Abs(c.file)
	broken, overlay := filepath.Join(place, "broken.go"), filepath.Join(place, "overlay.json")
	said, _ := json.Marshal(map[string]any{"Replace": map[string]string{whole: broken}})
	if os.WriteFile(broken, c.apply(source), 0o600) != nil || os.WriteFile(overlay, said, 0o600) != nil {
		return "no program"
	}
	own := "./" + filepath.Dir(c.file)
	test := []string{"test", "-overlay", overlay, "-failfast", "-count=1", "-vet=off", "-timeout=2m"}
	for _, packages := range [][]string{{own}, above[root]} {
		if out, err := command(append(test, packages...)...); err != nil {
			if strings.Contains(out, "[build failed]") {
				return "no program"
			}
			return "caught"
		}
	}
	return "unseen"
}

func command(args ...string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput()
	return string(out), err
}
