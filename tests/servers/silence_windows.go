package servers

import "errors"

// Silence has an error: Windows stops no processes.
func (s *Server) Silence() error { return errors.New("no server can be silenced on Windows") }

// Resume has nothing to do.
func (s *Server) Resume() error { return nil }
