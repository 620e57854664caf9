package core

import (
	"strconv"
)

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
	dst = append(dst, "{\n  \"writer_id\": \""...)
	dst = appendText(dst, string(r.holder))
	dst = append(dst, "\",\n  \"written_at\": \""...)
	dst = appendStampOrEmpty(dst, r.writtenAt)
	dst = append(dst, "\",\n  \"expire_s\": "...)
	dst = appendSeconds(dst, r.ttl)
	dst = append(dst, ",\n  \"write_count\": "...)
	dst = strconv.AppendInt(dst, r.count, 10)
	dst = append(dst, ",\n  \"hostname\": \""...)
	dst = appendText(dst, r.host)
	dst = append(dst, "\",\n  \"pid\": \""...)
	dst = appendText(dst, r.pid)
	dst = append(dst, "\",\n  \"tid\": "...)
	dst = strconv.AppendUint(dst, r.tid, 10)
	dst = append(dst, ",\n  \"first_written_at\": \""...)
	dst = appendStampOrEmpty(dst, r.firstWrittenAt)
	dst = append(dst, "\",\n  \"first_acquired_at\": \""...)
	dst = appendStampOrEmpty(dst, r.acquiredAt)
	dst = append(dst, "\",\n  \"released_at\": \""...)
	dst = appendStampOrEmpty(dst, r.releasedAt)
	if r.remote {
		dst = append(dst, "\",\n  \"writer_name\": \""+RemoteWriter...)
	}
	return append(dst, "\"\n}"...)
}

func appendStampOrEmpty(dst []byte, wall int64) []byte {
	if wall == 0 {
		return dst
	}
	return appendStamp(dst, wall)
}

// appendSeconds writes the shortest decimal that is exactly ttl, which is not
// negative: no exponent, and .0 if it is whole, as Python shows a float.
func appendSeconds(dst []byte, ttl Duration) []byte {
	dst = strconv.AppendInt(dst, int64(ttl/second), 10)
	dst = append(dst, '.')
	fraction := uint32(ttl % second)
	if fraction == 0 {
		return append(dst, '0')
	}
	for unit := uint32(100_000_000); fraction > 0; unit /= 10 {
		dst = append(dst, '0'+byte(fraction/unit))
		fraction %= unit
	}
	return dst
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
	switch c {
	case '"', '\\':
		return append(dst, '\\', byte(c))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
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
