//go:build cgo && !mopslock_core

package main

// extern char **environ;
import "C"

import (
	"os"
	"strings"
	"sync"
	"unsafe"
)

// environmentLock is for one open at a time.
var environmentLock sync.Mutex

// adoptEnvironment gives Go the process's environment as it is now. By itself Go has that
// which the process was started with, whatever C has set since.
//
// What Go sets is set in C as well. So all of C's is read before, and only what
// differs is touched: C is told what it has, and its array stays as it is.
func adoptEnvironment() {
	environmentLock.Lock()
	defer environmentLock.Unlock()
	now := variables()
	for name, value := range now {
		if had, set := os.LookupEnv(name); !set || had != value {
			_ = os.Setenv(name, value) // fails for names only that are not in there
		}
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if _, set := now[name]; !set {
			_ = os.Unsetenv(name)
		}
	}
}

// variables are C's. Of those that are there twice the first counts, as for getenv.
func variables() map[string]string {
	found := map[string]string{}
	if C.environ == nil { // after clearenv
		return found
	}
	for at := C.environ; *at != nil; at = (**C.char)(unsafe.Add(unsafe.Pointer(at), unsafe.Sizeof(*at))) {
		name, value, named := strings.Cut(C.GoString(*at), "=")
		if _, twice := found[name]; named && name != "" && !twice {
			found[name] = value
		}
	}
	return found
}
