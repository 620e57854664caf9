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

// Answer is what a server said no with.
type Answer struct {
	Status int    // of HTTP
	Code   string // the service's own word, or ""
	// RetryAfter is what RetryAfter makes of its headers.
	RetryAfter time.Duration
}

// RetryAfter is how long an answer asks to be left alone, by its Retry-After in
// seconds or as a date; 0 where it does not.
func RetryAfter(header http.Header) time.Duration {
	said := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(said, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, store.MaxRetryAfter)
	}
	at, err := http.ParseTime(said)
	if err != nil {
		return 0
	}
	// By the clock that the date is of, if the answer shows it.
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, min(at.Sub(now), store.MaxRetryAfter))
}

// said puts the answer before an SDK's many lines.
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

// fail makes the error of a verb, nil of nil.
func (s *Store) fail(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrKey), errors.Is(err, store.ErrBody), errors.Is(err, store.ErrTooLarge):
		return store.Fail(op, key, core.ClassOther, err)
	case errors.Is(err, store.ErrExists): // we have looked
		return store.Fail(op, key, core.ClassNone, err)
	case s.closed.Load(): // gocloud calls a closed bucket a failed precondition
		return store.Fail(op, key, core.ClassOther, store.ErrClosed)
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

// verdict says whether err is a definite no, and if not, its class. First the
// driver's own knowledge, then what the server said, then the network, and
// only for what is none of these gocloud's code: see the package comment.
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

// missing is what "not found" means to a verb. To one that needs no object, it
// is the bucket that was not found.
func missing(op string) (no error, class core.Class) {
	switch op {
	case "get", "exists", "delete":
		return store.ErrAbsent, core.ClassNone
	}
	return nil, core.ClassNoSuchStore
}

// answer finds what the server said.
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
	return a, a.Status >= 300 // less is an answer that broke off
}

// isUnsupported: a server that does not know If-None-Match may say so, which is
// better than to ignore it. It will not know it the next time either.
func (a Answer) isUnsupported() bool {
	return a.Status == http.StatusNotImplemented || a.Code == "NotImplemented"
}

func (a Answer) verdict(op string) (no error, class core.Class) {
	if class := codeClass(a.Code); class != core.ClassNone {
		return nil, class
	}
	if a.Code == "NoSuchUpload" { // S3: somebody ended our multipart upload; the bucket is there
		return nil, core.ClassOther
	}
	switch a.Status {
	case http.StatusPreconditionFailed:
		// A lease of Azure's own on a blob is a 412 too, and says nothing of ours.
		if op == "create" && !strings.HasPrefix(a.Code, "Lease") {
			return store.ErrExists, core.ClassNone
		}
	case http.StatusConflict:
		// Azure's word. S3's 409, ConditionalRequestConflict, is of a race that
		// is still going on: unknown.
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

// codeClass knows the words that say more than their status, of S3, Azure and
// GCS.
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
		"ResourceNotFound": // Azure, also to somebody who may not know that it is there
		return core.ClassNoSuchStore
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "storageQuotaExceeded":
		return core.ClassFull
	case "OperationTimedOut", "RequestTimeout":
		return core.ClassUnreachable
	}
	return core.ClassNone
}
