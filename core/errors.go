package core

// Error is what a constructor and a Step return when the host broke the
// contract. What the world can do is never an Error.
type Error struct {
	Code ErrorCode
	Text string
}

// Error is the text behind the package's name.
func (e *Error) Error() string { return "mopslock: " + e.Text }

// Is makes errors.Is(err, &Error{Code: c}) ask for the code alone.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code && other.Text == ""
}

func fault(code ErrorCode, text string) error { return &Error{code, text} }
