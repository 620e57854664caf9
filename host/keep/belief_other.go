//go:build !unix && !windows

package keep

import (
	"errors"
	"os"
	"unsafe"
)

// mapped maps no file here: renewals are told.
func mapped(*os.File, int64) (unsafe.Pointer, error) { return nil, errors.ErrUnsupported }
