package exit

import "syscall"

// closedPipe is what a pipe whose reader has gone comes to: ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED.
var closedPipe = []error{syscall.ERROR_BROKEN_PIPE, syscall.Errno(232), syscall.Errno(233)} // never written
