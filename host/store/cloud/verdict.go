package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Answer is a server's answer that was not a success.
type Answer struct {
	Status int    // of HTTP
	Code   string // the service's own word, or ""
	// RetryAfter is the result of RetryAfter for its headers.
	RetryAfter time.Duration
}

// RetryAfter returns how long an answer asks the client to wait, by its Retry-After in
// seconds or as a date, or 0 if it has none.
func RetryAfter(header http.Header) time.Duration {
	said := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(said, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, store.MaxRetryAfter)
	}
	at, err := http.ParseTime(said)
	if err != nil {
		return 0
	}
	// Subtract the server's own time, if the answer has it.
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, min(at.Sub(now), store.MaxRetryAfter))
}

// said replaces an SDK's text of many lines by the answer.
type said struct {
	Answer
	err error
}

func (s said) Error() string {
	text := fmt.Sprintf("the server answered %d", s.Status)
	if s.Code != "" {
		text += " " + s.Code
	}
	return text
}

func (s said) Unwrap() error { return s.err }

// fail makes the error of a verb, or returns nil for nil.
func (s *Store) fail(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrKey), errors.Is(err, store.ErrBody), errors.Is(err, store.ErrTooLarge):
		return store.Fail(op, key, core.ClassOther, err)
	case errors.Is(err, store.ErrExists): // our own look found the object
		return store.Fail(op, key, core.ClassNone, err)
	case s.closed.Load(): // gocloud calls a closed bucket a failed precondition
		return store.Fail(op, key, core.ClassOther, store.ErrClosed)
	}
	if e, ok := errors.AsType[*UnmarkedError](err); ok { // without the SDK's text around it
		return store.Fail(op, key, core.ClassUnreachable, e)
	}
	no, class := s.verdict(op, err)
	var retryAfter time.Duration
	if answer, ok := s.answer(err); ok {
		if class == core.ClassThrottled {
			retryAfter = answer.RetryAfter
		}
		if err = (said{answer, err}); op == "create" && answer.isUnsupported() {
			err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
	}
	if no != nil {
		err = fmt.Errorf("%w: %w", no, err)
	}
	failed := store.Fail(op, key, class, err)
	failed.RetryAfter = retryAfter
	return failed
}

// verdict says whether err is a definite no, and if not, its class. It asks the driver
// first, then the server's answer, then the network. It uses gocloud's code only if none
// of these tells: see the package comment.
func (s *Store) verdict(op string, err error) (no error, class core.Class) {
	if s.opts.Class != nil {
		if class := s.opts.Class(err); class != core.ClassNone {
			return nil, class
		}
	}
	if answer, ok := s.answer(err); ok {
		return answer.verdict(op)
	}
	if class := store.ClassOf(err); class != core.ClassOther {
		return nil, class
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return missing(op)
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		if op == "create" {
			return store.ErrExists, core.ClassNone
		}
	case gcerrors.PermissionDenied:
		return nil, core.ClassUnauthorized
	case gcerrors.ResourceExhausted:
		return nil, core.ClassThrottled
	case gcerrors.DeadlineExceeded:
		return nil, core.ClassUnreachable
	}
	return nil, core.ClassOther
}

// missing returns what "not found" means for a verb. For a verb that needs no object, the
// bucket was not found.
func missing(op string) (no error, class core.Class) {
	switch op {
	case "get", "exists", "delete":
		return store.ErrAbsent, core.ClassNone
	}
	return nil, core.ClassNoSuchStore
}

// answer finds the server's answer in an error.
func (s *Store) answer(err error) (Answer, bool) {
	if s.opts.Answer != nil {
		if a, ok := s.opts.Answer(err); ok {
			return a, true
		}
	}
	// The methods of the AWS SDK's errors, without the AWS SDK.
	var (
		status interface{ HTTPStatusCode() int }
		code   interface{ ErrorCode() string }
		a      Answer
	)
	if !errors.As(err, &status) {
		return Answer{}, false
	}
	a.Status = status.HTTPStatusCode()
	if errors.As(err, &code) {
		a.Code = code.ErrorCode()
	}
	return a, a.Status >= 300 // a status below means that the answer broke off
}

// isUnsupported reports whether a server says that it does not know If-None-Match. That
// is better than ignoring it, and does not change with the next request.
func (a Answer) isUnsupported() bool {
	return a.Status == http.StatusNotImplemented || a.Code == "NotImplemented"
}

func (a Answer) verdict(op string) (no error, class core.Class) {
	if class := codeClass(a.Code); class != core.ClassNone {
		return nil, class
	}
	if a.Code == "NoSuchUpload" { // S3: another program ended our multipart upload; the bucket is there
		return nil, core.ClassOther
	}
	switch a.Status {
	case http.StatusPreconditionFailed:
		// An Azure lease on a blob is also a 412, but says nothing of our object.
		if op == "create" && !strings.HasPrefix(a.Code, "Lease") {
			return store.ErrExists, core.ClassNone
		}
	case http.StatusConflict:
		// This is Azure's code. S3's 409, ConditionalRequestConflict, means that a
		// race is still going on: unknown.
		if op == "create" && a.Code == "BlobAlreadyExists" {
			return store.ErrExists, core.ClassNone
		}
	case http.StatusNotFound:
		return missing(op)
	}
	return nil, statusClass(a.Status)
}

func statusClass(status int) core.Class {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return core.ClassThrottled
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return core.ClassUnauthorized
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return core.ClassNoSuchStore // S3: the bucket is in another region
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
		return core.ClassUnreachable
	case http.StatusInsufficientStorage:
		return core.ClassFull
	}
	return core.ClassOther
}

// codeClass knows the codes of S3, Azure and GCS that say more than their status.
func codeClass(code string) core.Class {
	switch code {
	case "SlowDown", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "RequestLimitExceeded", "TooManyRequests", "TooManyRequestsException",
		"BandwidthLimitExceeded", "ServerBusy", "rateLimitExceeded", "userRateLimitExceeded":
		return core.ClassThrottled
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthorizationHeaderMalformed",
		"InvalidAccessKeyId", "SignatureDoesNotMatch", "NoAuthenticationInformation", "InvalidAuthenticationInfo":
		return core.ClassUnauthorized
	case "NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "ContainerNotFound", "ContainerBeingDeleted",
		"ContainerDisabled", "AccountBeingCreated", "InvalidResourceName",
		"ResourceNotFound": // Azure, also to a caller that may not know that it is there
		return core.ClassNoSuchStore
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "storageQuotaExceeded":
		return core.ClassFull
	case "OperationTimedOut", "RequestTimeout":
		return core.ClassUnreachable
	}
	return core.ClassNone
}
