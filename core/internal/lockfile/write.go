package lockfile

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// Own is a lock.json that we write. An instant of 0 is written as "".
type Own struct {
	Holder         core.HolderID
	WrittenAt      int64
	FirstWrittenAt int64
	AcquiredAt     int64
	ReleasedAt     int64
	TTL            core.Duration
	Count          int64
	Host           string
	PID            string
	TID            uint64
	Remote         bool // a companion writes
	// Epoch is the fencing token of the strict tenure above it (PROTOCOL B2), or 0.
	Epoch core.Epoch
}

// Append appends r, byte for byte as json.dumps(record, indent=2) writes the
// same values in Python. mops writes its records so.
func Append(dst []byte, r *Own) []byte {
	w := jsontext.Writer(dst)
	w.Text("{\n  \"writer_id\": \"", string(r.Holder))
	w.Stamp("\",\n  \"written_at\": \"", r.WrittenAt)
	w = jsontext.AppendSeconds(append(w, "\",\n  \"expire_s\": "...), int64(r.TTL))
	w.Number(",\n  \"write_count\": ", uint64(r.Count))
	w.Text(",\n  \"hostname\": \"", r.Host)
	w.Text("\",\n  \"pid\": \"", r.PID)
	w.Number("\",\n  \"tid\": ", r.TID)
	w.Stamp(",\n  \"first_written_at\": \"", r.FirstWrittenAt)
	w.Stamp("\",\n  \"first_acquired_at\": \"", r.AcquiredAt)
	w.Stamp("\",\n  \"released_at\": \"", r.ReleasedAt)
	if r.Remote {
		w.Text("\",\n  \"writer_name\": \"", core.RemoteWriter)
	}
	w = append(w, '"')
	if r.Epoch != 0 {
		w.Number(",\n  \"epoch\": ", uint64(r.Epoch))
	}
	return append(w, "\n}"...)
}
