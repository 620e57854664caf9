//go:build !race && (linux || darwin)

package host

import (
	"errors"
	"os"
	"strings"

	_ "github.com/mopslock/mopslock/host/store/azblob"
	_ "github.com/mopslock/mopslock/host/store/gs"
	_ "github.com/mopslock/mopslock/host/store/s3"
	"github.com/mopslock/mopslock/tests/servers"
)

// startFar starts a server of that kind, and puts what its URLs need into the
// environment.
func startFar(kind string) (*farStore, error) {
	s, err := servers.Start(kind)
	if errors.Is(err, servers.ErrNotInstalled) && !servers.Required() {
		return &farStore{missing: err}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, line := range s.Env(s.Address) {
		name, value, _ := strings.Cut(line, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return &farStore{url: func(prefix string) string { return s.Under(s.Address, prefix) }, stop: s.Close}, nil
}
