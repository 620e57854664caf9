//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mopslock/mopslock/host/store"
)

// What follows is `object VERB…`, a word of scripts and of sh. It looks into the store in MOPSLOCK_STORE.
const objectUsage = `usage:
[!] object exists KEY…    there is an object at each; at KEY/: something below it
    object absent KEY…    there is none
[!] object grep REGEXP KEY
[!] object same KEY FILE  the bytes of the one are those of the other
    object get KEY FILE   - is stdout
    object put FILE KEY   - is stdin
    object rm KEY…        which are there`

// object is a job's: status 1 says that what is said does not hold, 2 that nobody knows.
func (j *job) object(args []string) int {
	url, _ := j.value("$MOPSLOCK_STORE")
	holds, err := j.world.object(url, args, j.stdin, j.stdout)
	switch {
	case err != nil:
		fmt.Fprintln(j.stderr, "object:", err)
		return 2
	case !holds:
		return 1
	}
	return 0
}

// objects is the shelf of a URL.
func (w *world) objects(url string) (*shelf, error) {
	at, err := store.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return w.shelf(at.Bucket), nil
}

func (w *world) object(url string, args []string, stdin io.Reader, stdout io.Writer) (bool, error) {
	s, err := w.objects(url)
	if err != nil || len(args) < 2 {
		return false, errors.Join(err, errors.New(objectUsage))
	}
	ctx, verb, args := context.Background(), args[0], args[1:]
	switch {
	case verb == "exists", verb == "absent":
		keys, err := keysBelow(s)
		return !slices.ContainsFunc(args, func(key string) bool { return hasKey(keys, key) != (verb == "exists") }), err
	case verb == "rm":
		for _, key := range args {
			err = errors.Join(err, s.Delete(ctx, key))
		}
		return err == nil, err
	case len(args) != 2:
		return false, errors.New(objectUsage)
	case verb == "put":
		body, err := os.ReadFile(args[0])
		if args[0] == "-" {
			body, err = io.ReadAll(stdin)
		}
		return true, errors.Join(err, s.Put(ctx, args[1], body, ""))
	}
	key := map[string]int{"grep": 1}[verb] // the first, but for grep
	found, err := s.Get(ctx, args[key])
	if err != nil {
		return false, err
	}
	switch verb {
	case "grep":
		return regexp.MustCompile("(?m)" + args[0]).Match(found.Body), nil
	case "same":
		want, err := os.ReadFile(args[1])
		return bytes.Equal(found.Body, want), err
	case "get":
		if args[1] == "-" {
			_, err := stdout.Write(found.Body)
			return true, err
		}
		return true, os.WriteFile(args[1], found.Body, 0o666)
	}
	return false, errors.New(objectUsage)
}

func keysBelow(s store.Store) (keys []string, err error) {
	page, _, err := s.List(context.Background(), "", "", 0)
	for _, info := range page {
		keys = append(keys, info.Key)
	}
	return keys, err
}

func hasKey(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(there string) bool {
		return there == key || strings.HasSuffix(key, "/") && strings.HasPrefix(there, strings.TrimPrefix(key, "/"))
	})
}

// cmdObject is object in scripts.
func cmdObject(ts *testscript.TestScript, neg bool, args []string) {
	w, url := worldOf(ts), ts.Getenv("MOPSLOCK_STORE")
	if neg && args[0] == "exists" { // of several, none
		neg, args = false, append([]string{"absent"}, args[1:]...)
	}
	holds, err := w.object(url, args, strings.NewReader(""), ts.Stdout())
	ts.Check(err)
	if holds == neg {
		s, _ := w.objects(url)
		keys, _ := keysBelow(s)
		ts.Fatalf("object %s: it is %v; the keys are %q", strings.Join(args, " "), holds, keys)
	}
}
