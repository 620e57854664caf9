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

// recordWriter appends the fields of a record: what stands before a value, and
// the value.
type recordWriter []byte

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (w *recordWriter) text(before, s string) { *w = appendText(append(*w, before...), s) }

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (w *recordWriter) number(before string, n uint64) {
	*w = appendDecimal(append(*w, before...), n)
}

// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (w *recordWriter) stamp(before string, wall int64) {
	*w = append(*w, before...)
	if wall != 0 {
		*w = appendStamp(*w, wall)
	}
}

// raw writes what stands between values.
// Not inlined: at its many calls that would cost the WASM guest kilobytes.
//
//go:noinline
func (w *recordWriter) raw(s string) { *w = append(*w, s...) }

// appendRecord appends r: byte for byte what json.dumps(record, indent=2) makes
// of the same values in Python, as mops would write it.
func appendRecord(dst []byte, r *ownRecord) []byte {
	w := recordWriter(dst)
	w.text("{\n  \"writer_id\": \"", string(r.holder))
	w.stamp("\",\n  \"written_at\": \"", r.writtenAt)
	w = appendSeconds(append(w, "\",\n  \"expire_s\": "...), r.ttl)
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

// appendSeconds writes the shortest decimal that is exactly ttl, which is not
// negative: no exponent, and .0 if it is whole, as Python shows a float.
func appendSeconds(dst []byte, ttl Duration) []byte {
	dst = appendDecimal(dst, uint64(ttl/second))
	if ttl%second == 0 {
		return append(dst, ".0"...)
	}
	return appendFraction(dst, uint64(ttl%second), uint64(second))
}

// appendText writes the inside of a JSON string in ASCII, escaped as Python
// does. What is not UTF-8 becomes U+FFFD.
func appendText(dst []byte, s string) []byte {
	if ordinaryASCII(s) {
		return append(dst, s...)
	}
	for _, c := range s {
		if c >= ' ' && c <= '~' && c != '"' && c != '\\' {
			dst = append(dst, byte(c))
		} else {
			dst = appendEscape(dst, c)
		}
	}
	return dst
}

func appendEscape(dst []byte, c rune) []byte {
	for i := 1; i < len(escapes); i += 2 {
		if rune(escapes[i]) == c {
			return append(dst, '\\', escapes[i-1])
		}
	}
	if c > 0xffff {
		c -= 0x10000
		dst = appendHex4(dst, 0xd800+c>>10)
		c = 0xdc00 + c&0x3ff
	}
	return appendHex4(dst, c)
}

func appendHex4(dst []byte, c rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[c>>12&15], hex[c>>8&15], hex[c>>4&15], hex[c&15])
}

// ordinaryASCII reports that s needs no escape. Eight bytes at a time; see
// skipOrdinary. Here a borrow or carry out of one byte can only add to a mark.
func ordinaryASCII(s string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		quote, slash := x^('"'*ones), x^('\\'*ones)
		if (x|(x+ones)|(x-' '*ones)|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			return false
		}
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
