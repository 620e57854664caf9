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

// TwinOf is the copy of a part, or nil.
func TwinOf[P interface {
	core.Part
	comparable
}](t core.Twins, p P) P {
	var none P
	if p == none {
		return none
	}
	return p.TwinIn(t).(P)
}
