//go:build !linux

package capture

import (
	"errors"
	"os"
)

func openNameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }
func nameFile(*os.File, string) error       { return errors.ErrUnsupported }
