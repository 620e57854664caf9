//go:build !unix

package keep

import (
	"errors"
	"os"
)

// OpenBelief maps no file here: renewals are told.
func OpenBelief(*os.File) (*Belief, error) { return nil, errors.ErrUnsupported }
