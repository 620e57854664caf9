package core

// ownVersion is a version that we are about to create.
type ownVersion struct {
	n, origin   Epoch
	state       VersionState
	tenure      HolderID
	owner       string
	owners      string // as it stands between the brackets
	nonce       nonce
	ttl, margin Duration
	session     string
	alone       bool
	why, by     string
	label       string
}

// nonce tells one request of ours from every other.
type nonce struct{ a, b uint64 }

// appendHex appends the nonce as it stands in a record.
func (n nonce) appendHex(dst []byte) []byte {
	const hex = "0123456789abcdef"
	for _, half := range [2]uint64{n.a, n.b} {
		for shift := 60; shift >= 0; shift -= 4 {
			dst = append(dst, hex[half>>shift&15])
		}
	}
	return dst
}

// is reports whether the text in a record is this nonce.
func (n nonce) is(text []byte) bool {
	var b [32]byte
	return string(n.appendHex(b[:0])) == string(text)
}

func newNonce(r *rng) nonce { return nonce{r.next(), r.next()} }

const recordHead = "{\n  \"v\": 1"

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func writeNonce(w *recordWriter, n nonce) {
	*w = append(n.appendHex(append(*w, ",\n  \"nonce\": \""...)), '"')
}

// end writes what all records end in: the boot's clock at the Step that emitted it.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func endRecord(m *machine, w *recordWriter) {
	boottime := m.now.Mono
	if m.cfg.Boot == "" || boottime < 0 {
		boottime = 0
	}
	w.maybe(",\n  \"boot\": \"", m.cfg.Boot)
	w.number(",\n  \"boottime_ns\": ", uint64(boottime))
}

// appendVersion appends the record of a lease's version.
func appendVersion(dst []byte, m *machine, v *ownVersion) []byte {
	w := openVersion(dst, m, v, kindLease)
	w.raw("\"\n}\n")
	return w
}

// appendValue appends the record of a semaphore's version.
func appendValue(dst []byte, m *machine, v *ownVersion, of *value) []byte {
	w := openVersion(dst, m, v, kindSemaphore)
	writeValue(&w, of)
	w.raw("\n}\n")
	return w
}

// openVersion begins the record of a version, up to the end of its time.
func openVersion(dst []byte, m *machine, v *ownVersion, kind string) recordWriter {
	w := recordWriter(dst)
	w.raw(recordHead)
	w.text(",\n  \"kind\": \"", kind)
	w.number("\",\n  \"n\": ", uint64(v.n))
	w.text(",\n  \"state\": \"", v.state.String())
	w.text("\",\n  \"tenure\": \"", string(v.tenure))
	w.number("\",\n  \"origin\": ", uint64(v.origin))
	w.text(",\n  \"owner\": \"", v.owner)
	w.raw("\",\n  \"owners\": [")
	w.raw(v.owners)
	w.raw("]")
	writeNonce(&w, v.nonce)
	w.seconds(",\n  \"ttl_s\": ", int64(v.ttl))
	w.seconds(",\n  \"margin_s\": ", int64(v.margin))
	w.maybe(",\n  \"session\": \"", v.session)
	alone := ",\n  \"alone\": false"
	if v.alone {
		alone = ",\n  \"alone\": true"
	}
	w.raw(alone)
	w.maybe(",\n  \"why\": \"", v.why)
	w.maybe(",\n  \"by\": \"", v.by)
	w.text(",\n  \"host\": \"", m.cfg.Host)
	w.text("\",\n  \"pid\": \"", m.cfg.PID)
	w.raw("\"")
	w.maybe(",\n  \"label\": \"", v.label)
	endRecord(m, &w)
	w.stamp(",\n  \"at\": \"", m.now.Wall)
	return w
}

// appendBeat appends an owner's beat.
func appendBeat(dst []byte, m *machine, owner string, seq uint64) []byte {
	w := recordWriter(dst)
	w.raw(recordHead)
	writeNonce(&w, newNonce(&m.rng))
	w.text(",\n  \"owner\": \"", owner)
	w.number("\",\n  \"seq\": ", seq)
	endRecord(m, &w)
	w.raw("\n}\n")
	return w
}

// appendSessionBeat appends a session's beat.
func appendSessionBeat(dst []byte, m *machine, ttl, margin Duration) []byte {
	w := recordWriter(dst)
	w.raw(recordHead)
	writeNonce(&w, newNonce(&m.rng))
	w.seconds(",\n  \"ttl_s\": ", int64(ttl))
	w.seconds(",\n  \"margin_s\": ", int64(margin))
	endRecord(m, &w)
	w.raw("\n}\n")
	return w
}

// appendCall appends a call to a session: its lease of this name was broken.
func appendCall(dst []byte, m *machine, name string, epoch Epoch) []byte {
	w := recordWriter(dst)
	w.raw(recordHead)
	writeNonce(&w, newNonce(&m.rng))
	w.text(",\n  \"name\": \"", name)
	w.number("\",\n  \"epoch\": ", uint64(epoch))
	endRecord(m, &w)
	w.raw("\n}\n")
	return w
}
