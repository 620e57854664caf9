package core

// FormatStamp returns wall, nanoseconds since 1970, as lock.json has it:
// microseconds, rounded down, always in UTC.
func FormatStamp(wall int64) string {
	return string(appendStamp(make([]byte, 0, stampLen), wall))
}
