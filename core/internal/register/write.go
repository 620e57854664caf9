package register

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/jsontext"
)

// OwnVersion is a version that we are about to create.
type OwnVersion struct {
	N, Origin   core.Epoch
	State       core.VersionState
	Tenure      core.HolderID
	Owner       string
	Owners      string // as it stands between the brackets
	Nonce       Nonce
	TTL, Margin core.Duration
	Session     string
	Alone       bool
	Why, By     string
	Label       string
	Ext         string // another's, as it stands; "" is none
}

// Nonce tells one request of ours from every other.
type Nonce struct{ A, B uint64 }

// WriteState writes the nonce.
func (n *Nonce) WriteState(w *core.StateWriter) { w.Nonce(n.A, n.B) }

// appendHex appends the nonce as it stands in a record.
func (n Nonce) appendHex(dst []byte) []byte {
	const hex = "0123456789abcdef"
	for _, half := range [2]uint64{n.A, n.B} {
		for shift := 60; shift >= 0; shift -= 4 {
			dst = append(dst, hex[half>>shift&15])
		}
	}
	return dst
}

// Is reports whether the text in a record is this nonce.
func (n Nonce) Is(text []byte) bool {
	var b [32]byte
	return string(n.appendHex(b[:0])) == string(text)
}

func NewNonce(r *base.RNG) Nonce { return Nonce{r.Next(), r.Next()} }

const recordHead = "{\n  \"v\": 1"

func writeNonce(w *jsontext.Writer, n Nonce) {
	*w = append(n.appendHex(append(*w, ",\n  \"nonce\": \""...)), '"')
}

// end writes what all records end in: the boot's clock at the Step that emitted it.
func endRecord(m *base.Machine, w *jsontext.Writer) {
	boottime := m.Now.Mono
	if m.Cfg.Boot == "" || boottime < 0 {
		boottime = 0
	}
	w.Maybe(",\n  \"boot\": \"", m.Cfg.Boot)
	w.Number(",\n  \"boottime_ns\": ", uint64(boottime))
}

// AppendVersion appends the record of a lease's version.
func AppendVersion(dst []byte, m *base.Machine, v *OwnVersion) []byte {
	w := openVersion(dst, m, v, kindLease)
	w.Raw("\"")
	closeVersion(&w, v.Ext)
	return w
}

// AppendValue appends the record of a semaphore's version.
func AppendValue(dst []byte, m *base.Machine, v *OwnVersion, of *Value) []byte {
	w := openVersion(dst, m, v, kindSemaphore)
	writeValue(&w, of)
	closeVersion(&w, of.Ext)
	return w
}

// closeVersion ends the record of a version. We begin no ext: a reader from before it would
// take a record that has one for corrupt, and the name from its holder.
func closeVersion(w *jsontext.Writer, ext string) {
	if ext != "" {
		w.Raw(",\n  \"ext\": ")
		w.Raw(ext)
	}
	w.Raw("\n}\n")
}

// openVersion begins the record of a version, up to the end of its time.
func openVersion(dst []byte, m *base.Machine, v *OwnVersion, kind string) jsontext.Writer {
	w := jsontext.Writer(dst)
	w.Raw(recordHead)
	w.Text(",\n  \"kind\": \"", kind)
	w.Number("\",\n  \"n\": ", uint64(v.N))
	w.Text(",\n  \"state\": \"", v.State.String())
	w.Text("\",\n  \"tenure\": \"", string(v.Tenure))
	w.Number("\",\n  \"origin\": ", uint64(v.Origin))
	w.Text(",\n  \"owner\": \"", v.Owner)
	w.Raw("\",\n  \"owners\": [")
	w.Raw(v.Owners)
	w.Raw("]")
	writeNonce(&w, v.Nonce)
	w.Seconds(",\n  \"ttl_s\": ", int64(v.TTL))
	w.Seconds(",\n  \"margin_s\": ", int64(v.Margin))
	w.Maybe(",\n  \"session\": \"", v.Session)
	alone := ",\n  \"alone\": false"
	if v.Alone {
		alone = ",\n  \"alone\": true"
	}
	w.Raw(alone)
	w.Maybe(",\n  \"why\": \"", v.Why)
	w.Maybe(",\n  \"by\": \"", v.By)
	w.Text(",\n  \"host\": \"", m.Cfg.Host)
	w.Text("\",\n  \"pid\": \"", m.Cfg.PID)
	w.Raw("\"")
	w.Maybe(",\n  \"label\": \"", v.Label)
	endRecord(m, &w)
	w.Stamp(",\n  \"at\": \"", m.Now.Wall)
	return w
}

// AppendBeat appends an owner's beat.
func AppendBeat(dst []byte, m *base.Machine, owner string, seq uint64) []byte {
	w := jsontext.Writer(dst)
	w.Raw(recordHead)
	writeNonce(&w, NewNonce(&m.RNG))
	w.Text(",\n  \"owner\": \"", owner)
	w.Number("\",\n  \"seq\": ", seq)
	endRecord(m, &w)
	w.Raw("\n}\n")
	return w
}

// AppendSessionBeat appends a session's beat.
func AppendSessionBeat(dst []byte, m *base.Machine, ttl, margin core.Duration) []byte {
	w := jsontext.Writer(dst)
	w.Raw(recordHead)
	writeNonce(&w, NewNonce(&m.RNG))
	w.Seconds(",\n  \"ttl_s\": ", int64(ttl))
	w.Seconds(",\n  \"margin_s\": ", int64(margin))
	endRecord(m, &w)
	w.Raw("\n}\n")
	return w
}

// AppendCall appends a call to a session: its lease of this name was broken.
func AppendCall(dst []byte, m *base.Machine, name string, epoch core.Epoch) []byte {
	w := jsontext.Writer(dst)
	w.Raw(recordHead)
	writeNonce(&w, NewNonce(&m.RNG))
	w.Text(",\n  \"name\": \"", name)
	w.Number("\",\n  \"epoch\": ", uint64(epoch))
	endRecord(m, &w)
	w.Raw("\n}\n")
	return w
}
