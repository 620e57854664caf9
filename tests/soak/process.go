//go:build unix

package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process adds to a sample what the system and the runtime say of this process. On a
// system without /proc, what only that tells is left out.
func process(values map[string]float64) {
	// A collection marks what lives, and also what was made while it ran. That is much if
	// other work leaves the collector little of the processor, so the least of three counts.
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	values[qHeap] = math.Inf(1)
	for range 3 {
		runtime.GC()
		metrics.Read(live)
		values[qHeap] = min(values[qHeap], float64(live[0].Value.Uint64()))
	}
	values[qGoroutines] = float64(runtime.NumGoroutine())
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		values[qRSS] = 1024 * field(string(status), "VmRSS:")
		values[qThreads] = field(string(status), "Threads:")
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		values[qFiles] = float64(len(files))
		values[qWatches] = watches()
	}
}

// field is the number that follows a word.
func field(text, word string) float64 {
	_, rest, _ := strings.Cut(text, word)
	if words := strings.Fields(rest); len(words) > 0 {
		number, _ := strconv.ParseFloat(words[0], 64)
		return number
	}
	return 0
}

// watches counts what the process watches for events of files.
func watches() (n float64) {
	infos, _ := filepath.Glob("/proc/self/fdinfo/*")
	for _, info := range infos {
		if text, err := os.ReadFile(info); err == nil { // it may have been closed meanwhile
			n += float64(strings.Count(string(text), "inotify wd:"))
		}
	}
	return n
}

// processor is the seconds of processors that the process has used.
func processor() float64 {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
