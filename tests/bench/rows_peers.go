//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
)

// peer is a run of what `make peers` has built.
type peer struct {
	args  []string
	curve string
}

func (p peer) measure(w *workshop) (figure, error) {
	const needs = "its server (make peers)"
	program := filepath.Join("bin", "peers", "peers")
	if _, err := exec.LookPath(program); err != nil {
		return figure{}, &missingError{needs}
	}
	return w.samples(p.curve, needs, program, append([]string{filepath.Join("bin", "peers", "debian")}, p.args...)...)
}

// Flags with which tests/bench/handover does what the peers do.
var (
	many    = []string{"-samples", "300"}
	asPeers = []string{"-samples", "40", "-least", "120ms", "-most", "160ms"}
)

// A peer has a server, on the same machine as all else. Redis keeps its locks in memory;
// etcd's and ours are synced to disk.
var peerRows = []row{
	{
		what: "acquire + release, strict, directory / etcd's lock",
		ours: handingOver("", "alone", many), beside: peer{args: []string{"etcd", "lock"}}, rounds: 3,
	},
	{
		what: "acquire + release, strict, directory / redsync's lock, not synced",
		ours: handingOver("", "alone", many), beside: peer{args: []string{"redis", "lock"}}, rounds: 3,
	},
	{
		what: "acquire + release, strict, S3 server / etcd's lock",
		ours: handingOver("", "alone", many, onS3), beside: peer{args: []string{"etcd", "lock"}}, rounds: 3,
	},
	{
		what: "acquire + release, strict, S3 server / redsync's lock, not synced",
		ours: handingOver("", "alone", many, onS3), beside: peer{args: []string{"redis", "lock"}}, rounds: 3,
	},
	{
		what: "hand-over between two processes, strict, directory / etcd's, between two clients of one process",
		ours: handingOver("", "two", asPeers), beside: peer{[]string{"etcd", "handover"}, "etcd, watches"}, rounds: 3,
	},
	{
		what: "hand-over between two processes, strict, directory / redsync's, between two clients of one process",
		ours: handingOver("", "two", asPeers), beside: peer{[]string{"redis", "handover"}, "Redis by redsync, tries again"}, rounds: 3,
	},
}
