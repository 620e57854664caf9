package core

// CheckView says whether a capacity and a width can be a caller's view.
func CheckView(capacity, width uint32) error {
	if !IsView(capacity, width) {
		return &Error{ErrorEvent, "capacity must be from 1 to " + uintText(MaxCapacity) +
			" and width from 1 to " + uintText(MaxWidth)}
	}
	return nil
}

// IsView is CheckView without an error, short enough to be inlined.
func IsView(capacity, width uint32) bool {
	return capacity-1 < MaxCapacity && width-1 < MaxWidth // 0 less 1 is the most there is
}
