// Package octets turns numbers into octets and back, judges texts, and writes durations.
// encoding/binary and time do the same, but bring reflection and the clock along, more than
// the WASM guest has room for. It knows neither JSON nor messages.
package octets

// Integers as octets. encoding/binary does the same, but brings reflect with it
// (over a megabyte in a WASM guest). The compiler turns each of these functions into
// one load or store.

func BE64(b []byte) uint64 {
	_ = b[7] // one bounds check
	return uint64(b[7]) | uint64(b[6])<<8 | uint64(b[5])<<16 | uint64(b[4])<<24 |
		uint64(b[3])<<32 | uint64(b[2])<<40 | uint64(b[1])<<48 | uint64(b[0])<<56
}

func LE64(b []byte) uint64 {
	_ = b[7] // one bounds check
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

func AppendBE64(b []byte, v uint64) []byte {
	return append(b, byte(v>>56), byte(v>>48), byte(v>>40), byte(v>>32),
		byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}
