package core

import "github.com/mopslock/mopslock/core/internal/jsontext"

// RecordVersion is the v of our own records. What has a higher one is neither
// free nor ours to judge.
const RecordVersion = 1

// Strict's part of the key space, below a name and at the store's root.
const (
	RegisterDir   = "_mopslock"
	RegisterType  = "application/json"
	SessionPrefix = RegisterDir + "/s/"
)

// ResultFile is the object, below the name, that the work came to; what failed
// work came to has that of the name below FailurePrefix. Both are the host's
// bytes, of which the core sees none.
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

// CalibrationPrefix is where processes keep the objects that they calibrate by.
const CalibrationPrefix = RegisterDir + "/c/"

// ResultKey is where the result of a name's work is.
func ResultKey(name string) string { return name + "/" + ResultFile }

// FailureKey is where what failed work came to is. It is under no name, so that what
// lists a name's objects does not see it.
func FailureKey(name string) string { return FailurePrefix + name + "/" + ResultFile }

// FormatStamp returns wall, nanoseconds since 1970, as lock.json has it:
// microseconds, rounded down, always in UTC.
func FormatStamp(wall int64) string {
	return string(jsontext.AppendStamp(make([]byte, 0, jsontext.StampLen), wall))
}
