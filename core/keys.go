package core

import "github.com/mopslock/mopslock/core/internal/jsontext"

// RecordVersion is the v of our own records. We neither judge a record with a
// higher v nor take its name as free.
const RecordVersion = 1

// The part of the key space that strict uses, below a name and at the store's root.
const (
	RegisterDir   = "_mopslock"
	RegisterType  = "application/json"
	SessionPrefix = RegisterDir + "/s/"
)

// ResultFile is the object below the name that has the result of the work. What
// failed work left has the same key below FailurePrefix. The host writes the bytes
// of both, and the core sees none of them.
const (
	ResultFile    = "result"
	FailurePrefix = RegisterDir + "/f/"
	ResultType    = "application/octet-stream"
	FailureType   = "application/vnd.mopslock.failure+msgpack"
)

// LockFile is the object that mops and we share, below the name.
const (
	LockFile     = "lock.json"
	LockFileType = "application/mops-lease"
	RemoteWriter = "remote"
)

// StoreClockPrefix is where processes keep the objects by which they sample the store's clock.
const StoreClockPrefix = RegisterDir + "/c/"

// ResultKey is where the result of a name's work is.
func ResultKey(name string) string { return name + "/" + ResultFile }

// FailureKey is where a host stores what failed work left. The key is under no name, so
// that a list of a name's objects does not show it.
func FailureKey(name string) string { return FailurePrefix + name + "/" + ResultFile }

// FormatStamp returns wall, nanoseconds since 1970, in the form of lock.json:
// microseconds, rounded down, always in UTC.
func FormatStamp(wall int64) string {
	return string(jsontext.AppendStamp(make([]byte, 0, jsontext.StampLen), wall))
}
