// Package azblob registers azblob:// with store.Open: Azure Blob Storage.
// Import it for that alone:
//
//	import _ "github.com/mopslock/mopslock/host/store/azblob"
//
// The account and its credentials come from AZURE_STORAGE_ACCOUNT and similar
// variables. The URL's parameters are those of gocloud.dev/blob/azureblob
// (storage_account, domain, protocol, localemu, cdn). Keys with " # % ? are refused:
// gocloud would keep the objects at other keys.
//
// Streamed bodies may have 781 GiB: 50,000 blocks of 16 MiB. Azure itself takes
// 190 TiB, in blocks of up to 4,000 MiB, but the SDK would hold a whole block in
// memory. The blocks of a failed upload make no object, and Azure drops them after a
// week.
package azblob

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob/azureblob"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

func init() { store.Register(azureblob.Scheme, open) }

func open(ctx context.Context, at *store.Location) (store.Store, error) {
	u := &url.URL{Scheme: at.Scheme, Host: at.Bucket, RawQuery: at.Query.Encode()}
	opener := &azureblob.URLOpener{MakeClient: newClient, ServiceURLOptions: *azureblob.NewDefaultServiceURLOptions()}
	bucket, err := opener.OpenBucketURL(ctx, u)
	if err != nil {
		return nil, err
	}
	var client *container.Client
	if !bucket.As(&client) {
		panic("mopslock: store: azblob: gocloud's bucket has no container client")
	}
	endpoint := client.URL() // also a connection string's
	return cloud.New(bucket, &cloud.Options{
		Prefix:     at.Prefix,
		StampUnit:  time.Second,
		ClockSteps: func() (bool, string) { return cloud.ClockSteps(at, endpoint) },
		Refused:    `"#%?`,
		Answer:     answer,
		Class:      class,
		MaxSize:    largeBlock * maxBlocks,
		Parts:      parts,
	}), nil
}

const (
	maxBlocks  = 50_000  // of one blob
	leastBlock = 1 << 20 // the SDK's least; a shorter body goes in a single request
	smallBlock = 4 << 20
	largeBlock = store.MaxBuffer
)

// parts returns four small blocks at once if these are enough for the body, otherwise one
// large block. A body shorter than the least block needs only one of that size.
func parts(size int64) (part, workers int) {
	if size >= 0 && size < leastBlock {
		return leastBlock, 1
	}
	if size >= 0 && size <= smallBlock*maxBlocks {
		return smallBlock, store.MaxBuffer / smallBlock
	}
	return largeBlock, 1
}

// answer finds the answer of Azure or of the token server. For the token server it keeps
// only the status: the error's text is the whole answer, in which a proxy may repeat the
// secrets of the request.
func answer(err error) (cloud.Answer, bool) {
	var token *azidentity.AuthenticationFailedError
	if errors.As(err, &token) && token.RawResponse != nil {
		return cloud.Answer{Status: token.RawResponse.StatusCode}, true
	}
	var e *azcore.ResponseError
	if !errors.As(err, &e) {
		return cloud.Answer{}, false
	}
	a := cloud.Answer{Status: e.StatusCode, Code: e.ErrorCode}
	if e.RawResponse != nil {
		a.RetryAfter = cloud.RetryAfter(e.RawResponse.Header)
	}
	return a, true
}

// class knows the errors of credentials that were not found or are not valid. Such an error
// may have a token server's answer in it, which says nothing of the store.
func class(err error) core.Class {
	var e *azidentity.AuthenticationFailedError
	if errors.As(err, &e) || strings.Contains(err.Error(), "DefaultAzureCredential: ") {
		return core.ClassUnauthorized
	}
	return core.ClassNone
}
