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

// adoptEnvironment gives Go the process's environment as it is now. By itself Go has the
// environment from the start of the process, whatever C has set since.
//
// A variable that Go sets is also set in C. So this reads all of C's variables first, and
// sets only those that differ: C's array stays as it is.
func adoptEnvironment() {
	environmentLock.Lock()
	defer environmentLock.Unlock()
	now := variables()
	for name, value := range now {
		if had, set := os.LookupEnv(name); !set || had != value {
			_ = os.Setenv(name, value) // fails only for names that C cannot have
		}
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if _, set := now[name]; !set {
			_ = os.Unsetenv(name)
		}
	}
}

// variables are C's. If one is there twice the first counts, as for getenv.
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
