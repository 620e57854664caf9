package core

// edge is one allowed move, with what causes it.
type edge[S ~uint8] struct {
	from, to S
	why      string
}

// checkMove panics unless the table has the move.
func checkMove[S interface {
	~uint8
	String() string
}](table []edge[S], from, to S) {
	for i := range table {
		if table[i].from == from && table[i].to == to {
			return
		}
	}
	panic("mopslock: core: invalid transition [" + from.String() + " -> " + to.String() + "]")
}
