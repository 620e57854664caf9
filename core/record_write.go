package core

// ownRecord is a lock.json of ours. An instant of 0 is written as "".
type ownRecord struct {
	holder         HolderID
	writtenAt      int64
	firstWrittenAt int64
	acquiredAt     int64
	releasedAt     int64
	ttl            Duration
	count          int64
	host           string
	pid            string
	tid            uint64
	remote         bool // a companion writes
}

// appendRecord appends r: byte for byte what json.dumps(record, indent=2) makes
// of the same values in Python, as mops would write it.
func appendRecord(dst []byte, r *ownRecord) []byte {
	w := recordWriter(dst)
	w.text("{\n  \"writer_id\": \"", string(r.holder))
	w.stamp("\",\n  \"written_at\": \"", r.writtenAt)
	w = appendSeconds(append(w, "\",\n  \"expire_s\": "...), int64(r.ttl))
	w.number(",\n  \"write_count\": ", uint64(r.count))
	w.text(",\n  \"hostname\": \"", r.host)
	w.text("\",\n  \"pid\": \"", r.pid)
	w.number("\",\n  \"tid\": ", r.tid)
	w.stamp(",\n  \"first_written_at\": \"", r.firstWrittenAt)
	w.stamp("\",\n  \"first_acquired_at\": \"", r.acquiredAt)
	w.stamp("\",\n  \"released_at\": \"", r.releasedAt)
	if r.remote {
		w.text("\",\n  \"writer_name\": \"", RemoteWriter)
	}
	return append(w, "\"\n}"...)
}
