package core

// Error is what a constructor and a Step return if the host broke the contract.
// A fault of the store, the network or another process is never an Error.
type Error struct {
	Code ErrorCode
	Text string
}

// Error returns the text behind the package's name.
func (e *Error) Error() string { return "mopslock: " + e.Text }

// Is makes errors.Is(err, &Error{Code: c}) compare the code alone.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code && other.Text == ""
}

func fault(code ErrorCode, text string) error { return &Error{code, text} }
