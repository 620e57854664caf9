//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// What follows is `object VERB…`: a command of the scripts, and as `sh-object` a program
// for the shells in them. It looks into the store in MOPSLOCK_STORE, whatever that is.
const objectUsage = `usage:
[!] object exists KEY…    there is an object at each; at KEY/: something below it
    object absent KEY…    there is none: what "! exists" is in scripts, for shells
[!] object grep REGEXP KEY
[!] object same KEY FILE  the bytes of the one are those of the other
    object get KEY FILE   - is stdout
    object put FILE KEY   - is stdin
    object rm KEY…        which are there`

// files is how object reads and writes what is no object.
type files struct {
	read  func(name string) ([]byte, error)
	write func(name string, body []byte) error
}

// doObject reports whether what is said holds; an error says that nobody knows, or
// that it could not be done.
func doObject(url string, f files, args []string) (bool, error) {
	if len(args) < 2 {
		return false, errors.New(objectUsage)
	}
	verb, args := args[0], args[1:]
	switch {
	case verb == "exists", verb == "absent":
		for _, key := range args {
			there, err := exists(url, key)
			if err != nil || there != (verb == "exists") {
				return false, err
			}
		}
		return true, nil
	case verb == "rm":
		return true, removeAll(url, args)
	case len(args) != 2:
		return false, errors.New(objectUsage)
	case verb == "grep":
		body, err := get(url, args[1])
		if err != nil {
			return false, err
		}
		pattern, err := regexp.Compile("(?m)" + args[0])
		return err == nil && pattern.Match(body), err
	case verb == "same":
		body, err := get(url, args[0])
		if err != nil {
			return false, err
		}
		want, err := f.read(args[1])
		return bytes.Equal(body, want), err
	case verb == "get":
		body, err := get(url, args[0])
		if err != nil {
			return false, err
		}
		return true, f.write(args[1], body)
	case verb == "put":
		body, err := f.read(args[0])
		if err != nil {
			return false, err
		}
		return true, put(url, args[1], body)
	}
	return false, errors.New(objectUsage)
}

func removeAll(url string, keys []string) error {
	for _, key := range keys {
		if there, err := exists(url, key); err != nil || !there {
			return errors.Join(err, fmt.Errorf("object rm: %s: there is none", key))
		}
		if err := remove(url, key); err != nil {
			return err
		}
	}
	return nil
}

// cmdObject is object in scripts.
func cmdObject(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case len(args) > 0 && neg && args[0] != "exists" && args[0] != "grep" && args[0] != "same":
		ts.Fatalf("%s", objectUsage)
	case len(args) > 0 && neg && args[0] == "exists": // of several, none
		neg, args = false, append([]string{"absent"}, args[1:]...)
	}
	holds, err := doObject(ts.Getenv("MOPSLOCK_STORE"), files{
		read:  func(name string) ([]byte, error) { return []byte(ts.ReadFile(name)), nil },
		write: func(name string, body []byte) error { return os.WriteFile(ts.MkAbs(name), body, 0o666) },
	}, args)
	ts.Check(err)
	if holds == neg {
		ts.Fatalf("object %s: it is %v; the keys are %s", strings.Join(args, " "), holds, keysOf(ts.Getenv("MOPSLOCK_STORE")))
	}
}

// keysOf is for messages.
func keysOf(url string) string {
	keys, err := list(url, "")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%q", keys)
}

// objectMain is sh-object: status 1 if what is said does not hold, else 2.
func objectMain() {
	holds, err := doObject(os.Getenv("MOPSLOCK_STORE"), files{
		read: func(name string) ([]byte, error) {
			if name == "-" {
				return io.ReadAll(os.Stdin)
			}
			return os.ReadFile(name)
		},
		write: func(name string, body []byte) error {
			if name == "-" {
				_, err := os.Stdout.Write(body)
				return err
			}
			return os.WriteFile(name, body, 0o666)
		},
	}, os.Args[1:])
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "sh-object:", err)
		os.Exit(2)
	case !holds:
		os.Exit(1)
	}
}
