// Package gs registers gs:// with store.Open: Google Cloud Storage. Import it
// for that alone:
//
//	import _ "github.com/mopslock/mopslock/host/store/gs"
//
// Credentials are Google's application default credentials, or none with
// ?anonymous=true or STORAGE_EMULATOR_HOST. The URL's parameters are those of
// gocloud.dev/blob/gcsblob. GCS takes one write a second to each object.
//
// Streamed bodies may have 5 TiB. They go in chunks of 8 MiB, in a resumable upload in
// which the SDK may send a chunk again. An unfinished upload makes no object, and GCS
// forgets it after a week.
//
// With the SDK's build tag disable_grpc_modules a program is 19 MB smaller and starts in
// a quarter less time. Then only ?grpc=true has no direct path to Google's servers.
package gs

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob/gcsblob"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

func init() { store.Register(gcsblob.Scheme, open) }

func open(ctx context.Context, at *store.Location) (store.Store, error) {
	u := &url.URL{Scheme: at.Scheme, Host: at.Bucket, RawQuery: at.Query.Encode()}
	bucket, endpoint, err := openBucket(ctx, u, at.Query)
	if err != nil {
		return nil, err
	}
	var client *storage.Client
	if !bucket.As(&client) {
		panic("mopslock: store: gs: gocloud's bucket has no GCS client")
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return cloud.New(bucket, &cloud.Options{
		Prefix: at.Prefix,
		// A list gives microseconds, but a get only the seconds of an HTTP header.
		StampUnit:  time.Second,
		ClockSteps: func() (bool, string) { return cloud.ClockSteps(at, endpoint) },
		Answer:     answer,
		Class:      class,
		Context:    once,
		StartAfter: startAfter,
		MaxSize:    5 << 40,
		Parts:      parts,
	}), nil
}

// parts returns the size of an upload's one buffer. GCS wants multiples of 256 KiB. A body
// that is shorter than the buffer goes in a single request.
func parts(size int64) (part, workers int) {
	const unit, most = 256 << 10, 8 << 20
	if size < 0 || size >= most {
		return most, 1
	}
	return int(size/unit+1) * unit, 1
}

// answer finds the answer of GCS or of the token server. For the token server it keeps only
// status and code: the error's text is the whole answer, in which a proxy may repeat the
// secrets of the request.
func answer(err error) (cloud.Answer, bool) {
	var token *oauth2.RetrieveError
	if errors.As(err, &token) && token.Response != nil {
		return cloud.Answer{Status: token.Response.StatusCode, Code: token.ErrorCode}, true
	}
	var e *googleapi.Error
	if !errors.As(err, &e) {
		return cloud.Answer{}, false
	}
	a := cloud.Answer{Status: e.Code, RetryAfter: cloud.RetryAfter(e.Header)}
	if len(e.Errors) > 0 {
		a.Code = e.Errors[0].Reason
	}
	return a, true
}

// class knows the errors of credentials that the token server refused, and of a missing
// bucket, whose 404 differs from an object's only in the text. For a get the SDK drops the
// text, so a missing bucket looks like an absent object there, until the write that
// follows.
func class(err error) core.Class {
	var (
		token  *oauth2.RetrieveError
		answer *googleapi.Error
	)
	switch {
	case errors.As(err, &token):
		return core.ClassUnauthorized
	case errors.Is(err, storage.ErrBucketNotExist):
		return core.ClassNoSuchStore
	case errors.As(err, &answer) && answer.Code == http.StatusNotFound:
		said := answer.Message + answer.Body
		if strings.Contains(said, "bucket does not exist") || strings.Contains(said, "NoSuchBucket") {
			return core.ClassNoSuchStore
		}
	}
	return core.ClassNone
}

// startAfter sets GCS's offset. That is the first key to send, not the last one to leave
// out.
func startAfter(as func(any) bool, after string) {
	var query *storage.Query
	if as(&query) {
		query.StartOffset = after
	}
}
