package host

import (
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// recordKey is where lastwriter keeps a name.
func recordKey(name string) string { return name + "/" + core.LockFile }

// longestKey is as long as any that the core makes below a name: that of a beat, which is put
// long after the lease was acquired.
func longestKey(name string) string {
	const version, owner = "0000000000000000", "00000000-0000-0000-0000-000000000000"
	return name + "/" + core.RegisterDir + "/" + version + "/b." + owner
}

// checkKeys asks a store that cannot keep every key, before the first request. What is kept by
// auto may be strict.
func (h *Host) checkKeys(name string, protocol core.Protocol) error {
	switch {
	case core.CheckName(name) != nil: // the client explains better why a name is refused
		return nil
	case protocol == core.ProtocolLastWriter:
		return h.checkKey(recordKey(name))
	}
	return h.checkKey(longestKey(name))
}

func (h *Host) checkKey(key string) error {
	if checker, ok := h.store.(store.KeyChecker); ok {
		return checker.CheckKey(key)
	}
	return nil
}

// isVersion reports whether what is below a name is a version of it under strict.
func isVersion(file string) bool {
	return strings.HasPrefix(file, core.RegisterDir+"/") && strings.HasSuffix(file, "/v")
}
