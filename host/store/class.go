package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"

	"github.com/mopslock/mopslock/core"
)

// ClassIn returns the class that a store gave its error, since only the store knows what
// its server's words mean. If the store gave none, it returns ClassOf.
func ClassIn(err error) core.Class {
	if e, ok := errors.AsType[*Error](err); ok && e.Class != core.ClassNone && e.Class <= core.ClassFull {
		return e.Class
	}
	return ClassOf(err)
}

// ClassOf classes errors of the operating system and the network. Package cloud
// classes the answers of servers. An error that ClassOf does not know, and a
// caller's cancel, are core.ClassOther; nil is core.ClassNone.
func ClassOf(err error) core.Class {
	switch {
	case err == nil:
		return core.ClassNone
	case errors.Is(err, ErrBody), errors.Is(err, ErrTooLarge):
		return core.ClassOther // not the store's fault, whatever the reason
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrMoved):
		return core.ClassUnreachable
	case errors.Is(err, context.Canceled):
		return core.ClassOther
	case systemClass(err) != core.ClassNone:
		return systemClass(err)
	case is(err, syscall.EROFS):
		return core.ClassReadOnly
	case is(err, syscall.ENOSPC, syscall.EDQUOT):
		return core.ClassFull
	case errors.Is(err, fs.ErrPermission): // EACCES, EPERM
		return core.ClassUnauthorized
	case unreachable(err):
		return core.ClassUnreachable
	}
	return core.ClassOther
}

func unreachable(err error) bool {
	if is(err, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
		syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETUNREACH, syscall.ENETDOWN,
		syscall.ENOTCONN, // a FUSE filesystem whose server has died
		syscall.ESTALE) { // an NFS handle whose server has changed
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return true
	}
	// An HTTP client that got an answer returns no *url.Error: this one got none.
	var (
		timeout net.Error
		lookup  *net.DNSError
		dial    *net.OpError
		request *url.Error
	)
	return errors.As(err, &lookup) || errors.As(err, &dial) || errors.As(err, &request) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

func is(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
