// Package gs registers gs:// with store.Open: Google Cloud Storage. Import it
// for that alone:
//
//	import _ "github.com/mopslock/mopslock/host/store/gs"
//
// Credentials are Google's application default ones, or none with
// ?anonymous=true or STORAGE_EMULATOR_HOST; the URL's parameters are those of
// gocloud.dev/blob/gcsblob. GCS takes one write a second to each object.
//
// Streamed bodies may have 5 TiB. They go in chunks of 8 MiB, in a resumable
// upload within which the SDK may send a chunk again; an upload that was not
// finished makes no object and is forgotten after a week.
//
// With the SDK's build tag disable_grpc_modules a program is 19 MB smaller and starts
// in a quarter less time; only ?grpc=true then has no direct path to Google's servers.
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
	bucket, err := openBucket(ctx, u, at.Query)
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
		// A list tells microseconds, but a get the seconds of an HTTP header.
		StampUnit:  time.Second,
		Answer:     answer,
		Class:      class,
		Context:    once,
		StartAfter: startAfter,
		MaxSize:    5 << 40,
		Parts:      parts,
	}), nil
}

// parts says how large the one buffer of an upload is. GCS wants multiples of
// 256 KiB; what is shorter than the buffer goes in a single request.
func parts(size int64) (part, workers int) {
	const unit, most = 256 << 10, 8 << 20
	if size < 0 || size >= most {
		return most, 1
	}
	return int(size/unit+1) * unit, 1
}

// answer finds what GCS said, or the server of tokens: the text of that error is
// all that it answered, and a proxy in its place may repeat what it was told.
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

// class knows credentials that the token server refused, and a bucket that is
// missing: its 404 differs from an object's in the text only. Of a get the SDK
// drops the text, so there a missing bucket is an absent object; the write that
// follows tells.
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

// startAfter sets GCS's offset, which is the first key to send, not the last
// to leave out.
func startAfter(as func(any) bool, after string) {
	var query *storage.Query
	if as(&query) {
		query.StartOffset = after
	}
}
