package core

import (
	"strconv"
)

// The names of schema_gen.go are tables by number, one for each type. One table is
// read in both directions; with switches, each direction would need a function.

// nameAt returns the name of n, or kind(n) if n has none.
func nameAt(names []string, n uint8, kind string) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return numbered(kind, n)
}

func numbered(kind string, n uint8) string {
	return kind + "(" + strconv.FormatUint(uint64(n), 10) + ")"
}

// numberOf returns the number that has the name. It searches from the end, where
// the most frequent events and outcomes are.
func numberOf(names []string, name []byte) (n uint8, ok bool) {
	if len(name) == 0 { // the gaps between numbers have this name
		return 0, false
	}
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] == string(name) {
			return uint8(i), true
		}
	}
	return 0, false
}

// VersionStateOf returns the state that the record of a version names.
func VersionStateOf(name []byte) (state VersionState, ok bool) {
	n, ok := numberOf(versionStateNames[:], name)
	return VersionState(n), ok
}
