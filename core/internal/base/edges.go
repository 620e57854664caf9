package base

// Edge is one allowed move, with what causes it.
type Edge[S ~uint8] struct {
	From, To S
	Why      string
}

// CheckMove panics unless the table has the move.
func CheckMove[S interface {
	~uint8
	String() string
}](table []Edge[S], from, to S) {
	for i := range table {
		if table[i].From == from && table[i].To == to {
			return
		}
	}
	panic("mopslock: core: invalid transition [" + from.String() + " -> " + to.String() + "]")
}
