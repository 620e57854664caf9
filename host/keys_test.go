package host

import (
	"fmt"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/capability"
)

// The keys that tests look for.
const (
	versionFile      = "/v"
	capabilityKey    = capability.Key
	storePrefix      = core.RegisterDir + "/"
	triedDir         = storePrefix + "d/"
	sessionPrefix    = core.SessionPrefix
	storeClockPrefix = core.StoreClockPrefix
)

// What the client does to find out whether create-if-absent is honoured: so many creates race, and
// so many times a finding is written to a store that throttles.
const (
	competitors       = 4
	mostFindingWrites = 3
)

// registerKey begins the keys of all that strict keeps of a name.
func registerKey(name string) string { return name + "/" + core.RegisterDir + "/" }

// versionKey is where strict keeps a version of a name: newest first in byte order.
func versionKey(name string, n core.Epoch) string {
	return fmt.Sprintf("%s%016x%s", registerKey(name), ^uint64(0)-uint64(n), versionFile)
}

// tidyPatience is how long a Host that closes waits for what is for tidiness.
const tidyPatience = core.Second / 2
