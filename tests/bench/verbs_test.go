//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host/store"
)

// BenchmarkDirectory is each verb of a directory, and the bare system calls that it cannot
// do without.
func BenchmarkDirectory(b *testing.B) {
	ctx, body := context.Background(), []byte(strings.Repeat("x", 200))
	for name, verb := range map[string]func(s store.Store, dir string, i int) error{
		"Put": func(s store.Store, _ string, _ int) error { return s.Put(ctx, "n/lock.json", body, "") },
		"PutBare": func(_ store.Store, dir string, _ int) error {
			return errors.Join(os.WriteFile(dir+"/temp", body, 0o666), os.Rename(dir+"/temp", dir+"/put"))
		},
		"Get":     func(s store.Store, _ string, _ int) error { _, err := s.Get(ctx, "there"); return err },
		"GetBare": func(_ store.Store, dir string, _ int) error { _, err := os.ReadFile(dir + "/there"); return err },
		"Create":  func(s store.Store, _ string, i int) error { return s.Create(ctx, fmt.Sprintf("n/%d", i), body, "") },
		"CreateBare": func(_ store.Store, dir string, i int) error {
			f, err := os.Create(dir + "/temp")
			_, errWrite := f.Write(body)
			err = errors.Join(err, errWrite, f.Sync(), f.Close(), os.Link(dir+"/temp", fmt.Sprintf("%s/%d", dir, i)))
			names, errOpen := os.Open(dir)
			return errors.Join(err, errOpen, names.Sync(), names.Close(), os.Remove(dir+"/temp"))
		},
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			s, err := store.Open(ctx, "file://"+dir)
			if err = errors.Join(err, os.WriteFile(dir+"/there", body, 0o666)); err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for i := 0; b.Loop(); i++ {
				if err := verb(s, dir, i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRowsHaveTheirBenchmarks: the benchmark that a row runs exists. Otherwise make bench
// would say so, after half an hour.
func TestRowsHaveTheirBenchmarks(t *testing.T) {
	text := func(pattern string) (all string) {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all += string(one)
		}
		return all
	}
	named := regexp.MustCompile(`goBench\{"([^"]+)", "(\w+)`).FindAllStringSubmatch(text("rows_*.go"), -1)
	for _, match := range named {
		if !strings.Contains(text("../../"+match[1]+"/*_test.go"), "\nfunc Benchmark"+match[2]+"(") {
			t.Errorf("%s has no Benchmark%s", match[1], match[2])
		}
	}
	if len(named) < 20 {
		t.Errorf("only %d rows name one", len(named))
	}
}
