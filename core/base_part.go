package core

// base is what machines share.
func (m *machine) base() *machine { return m }
