package base

import "github.com/mopslock/mopslock/core"

// Shared is embedded in a struct to which many pointers may lead. The generator of copies
// makes it a core.Part.
type Shared struct{}

// WritePart writes a part, or that there is none.
func WritePart[P interface {
	core.Part
	comparable
}](w *core.StateWriter, p P) {
	var none P
	if w.Bool(p != none); p != none {
		w.Part(p)
	}
}

// CopyOf is the copy of a part, or nil.
func CopyOf[P interface {
	core.Part
	comparable
}](t core.Copies, p P) P {
	var none P
	if p == none {
		return none
	}
	return p.CopyIn(t).(P)
}
