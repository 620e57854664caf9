package wasm

import "errors"

// CacheOfTests is the cache of compiled modules of this run.
func CacheOfTests() string { return shared }

// BreakGuest makes the guest that serves New fail, as a trap does.
func (e *Engine) BreakGuest() { _ = e.guest.fail(errors.New("broken by the test")) }
