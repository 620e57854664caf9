package host

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/capability"
)

// recordKey is where lastwriter keeps a name.
func recordKey(name string) string { return name + "/" + core.LockFile }

// registerKey begins the keys of all that strict keeps of a name.
func registerKey(name string) string { return name + "/" + registerDir + "/" }

const (
	registerDir = "_mopslock"
	versionFile = "/v"
)

// longestKey is as long as any that we make below a name: that of a beat, which
// is put long after the lease was acquired.
func longestKey(name string) string {
	const owner = "00000000-0000-0000-0000-000000000000"
	return strings.TrimSuffix(versionKey(name, 1), versionFile) + "/b." + owner
}

// versionKey is where strict keeps a version of a name: newest first in byte order.
func versionKey(name string, n core.Epoch) string {
	return fmt.Sprintf("%s%016x%s", registerKey(name), ^uint64(0)-uint64(n), versionFile)
}

// epochOf is which version of a name a key is of; 0 is none.
func epochOf(name, key string) core.Epoch {
	file, ours := strings.CutPrefix(key, registerKey(name))
	hex, version := strings.CutSuffix(file, versionFile)
	left, err := strconv.ParseUint(hex, 16, 64)
	if !ours || !version || err != nil {
		return 0
	}
	return core.Epoch(^left)
}

// resultKey is where the result of a name's work is.
func resultKey(name string) string { return name + "/" + core.ResultFile }

// failureKey is where the outcome of failed work is.
func failureKey(name string) string { return core.FailurePrefix + resultKey(name) }

// The keys of the whole store.
const (
	storePrefix = registerDir + "/"
	// capabilityKey is what create-if-absent is tried on.
	capabilityKey = capability.Key
	// triedDir is for what is tried instead of it, as doctors do.
	triedDir = storePrefix + "d/"
	// Sessions and samples of the store's clock, each below an id.
	sessionPrefix    = storePrefix + "s/"
	storeClockPrefix = storePrefix + "c/"
)
