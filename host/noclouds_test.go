//go:build race || !(linux || darwin)

package host

import "errors"

// startFar does not: with the race detector the clouds' SDKs would take minutes to
// build, and elsewhere no server is installed.
func startFar(string) (*farStore, error) {
	return nil, errors.New("no cloud's SDK is in this build: run it without -race, on Linux or macOS")
}
