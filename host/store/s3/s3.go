// Package s3 registers s3:// with store.Open: Amazon S3 and servers of its protocol.
// Import it for that alone:
//
//	import _ "github.com/mopslock/mopslock/host/store/s3"
//
// Credentials and region come from the environment, as with every AWS tool. The URL's
// parameters are those of gocloud.dev/blob/s3blob (region, endpoint, profile,
// use_path_style, …). Without permission to list the bucket, S3 answers 403, not 404,
// for a missing object: grant s3:ListBucket.
//
// Streamed bodies go in at most 10,000 parts of 8 MiB, or of 16 MiB if the size is not
// known or above 78 GiB. So a body of unknown size may have 156 GiB. A body of known size
// may have 5 TiB: beyond 156 GiB its parts are larger, and are sent as they are read,
// which needs https. After a failed upload the store removes the parts. If that also
// fails, they stay and are charged for, but never become an object. So have a lifecycle
// rule that aborts incomplete multipart uploads.
package s3

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob/s3blob"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

func init() { store.Register(s3blob.Scheme, open) }

func open(ctx context.Context, at *store.Location) (store.Store, error) {
	u := &url.URL{Scheme: at.Scheme, Host: at.Bucket, RawQuery: at.Query.Encode()}
	opener := new(s3blob.URLOpener)
	bucket, err := opener.OpenBucketURL(ctx, u)
	if err != nil {
		return nil, err
	}
	// The same client again, with settings that a URL cannot give.
	var client *sdk.Client
	if !bucket.As(&client) {
		panic("mopslock: store: s3: gocloud's bucket has no S3 client")
	}
	opts := client.Options()
	opts.Logger = nil // it writes to stderr what errors also say
	client = sdk.New(opts, once, connections(marks(at.Bucket)))
	if bucket, err = s3blob.OpenBucket(ctx, client, at.Bucket, &opener.Options); err != nil {
		return nil, err
	}
	endpoint := endpointOf(client.Options(), at.Query.Get("endpoint"))
	up := newUploader(client, at.Bucket, endpoint, &opener.Options)
	return cloud.New(bucket, &cloud.Options{
		Prefix:     at.Prefix,
		StampUnit:  time.Second,
		ClockSteps: func() (bool, string) { return cloud.ClockSteps(at, endpoint) },
		Answer:     said,
		Class:      class,
		StartAfter: startAfter,
		MaxSize:    up.maxSize(),
		Upload:     up.upload,
		Delete:     up.remove,
	}), nil
}

// endpointOf returns the endpoint of the store's URL, else that of the environment or of
// AWS' files, else AWS' own.
func endpointOf(o sdk.Options, named string) string {
	switch {
	case named != "":
		return named
	case o.BaseEndpoint != nil:
		return *o.BaseEndpoint
	}
	return "s3." + cmp.Or(o.Region, "us-east-1") + ".amazonaws.com"
}

func said(err error) (cloud.Answer, bool) {
	var (
		e    *awshttp.ResponseError
		code interface{ ErrorCode() string }
	)
	if !errors.As(err, &e) || e.Response == nil || e.Response.StatusCode < 300 { // a status below means that the answer broke off
		return cloud.Answer{}, false
	}
	a := cloud.Answer{Status: e.Response.StatusCode, RetryAfter: cloud.RetryAfter(e.Response.Header)}
	if errors.As(err, &code) {
		a.Code = code.ErrorCode()
	}
	return a, true
}

// class knows the error of credentials that were not found. The SDK says so only in its
// text, after a search in all places. One of these is an address that answers only on EC2,
// so "no route" is not the network's fault here, but a deadline is.
func class(err error) core.Class {
	if strings.Contains(err.Error(), "get identity: ") && !errors.Is(err, context.DeadlineExceeded) {
		return core.ClassUnauthorized
	}
	return core.ClassNone
}

func startAfter(as func(any) bool, after string) {
	var in *sdk.ListObjectsV2Input
	if as(&in) {
		in.StartAfter = &after
	}
}
