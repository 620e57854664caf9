package gs

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

// openBucket opens the bucket as gocloud does for a URL, but with connections of its own.
// It also keeps gocloud from searching for credentials if there are none: gocloud would
// print a warning on stdout, where results go. It also returns the host that is asked.
func openBucket(ctx context.Context, u *url.URL, query url.Values) (bucket *blob.Bucket, endpoint string, err error) {
	// The credentials keep the context, and renew their tokens with it as long as the
	// process lives. So ctx's end must not reach them.
	ctx = context.WithoutCancel(ctx)
	var creds *google.Credentials
	if !isNobody(query) {
		params := google.CredentialsParams{UniverseDomain: query.Get("universe_domain")}
		if creds, err = gcp.DefaultCredentialsWithParams(ctx, params); err != nil {
			return nil, "", store.Fail("open", u.Scheme+"://"+u.Host, core.ClassUnauthorized, err)
		}
	}
	endpoint = endpointOf(creds, query)
	if isTrue(query, "grpc") || isTrue(query, "zonal") { // these do not use HTTP
		bucket, err = blob.DefaultURLMux().OpenBucketURL(ctx, u)
		return bucket, endpoint, err
	}
	client, opts, err := newClient(creds, u.Host)
	if err != nil {
		return nil, "", err
	}
	// Also as an option, since gocloud uses Go's default client for an emulator and for
	// requests without credentials.
	opts = append(opts, option.WithHTTPClient(&client.Client))
	opener := &gcsblob.URLOpener{Client: client, Options: gcsblob.Options{ClientOptions: opts}}
	bucket, err = opener.OpenBucketURL(ctx, u)
	return bucket, endpoint, err
}

// endpointOf returns an emulator's address, or the host of the universe that the
// credentials are for.
func endpointOf(creds *google.Credentials, query url.Values) string {
	if emulated := cmp.Or(os.Getenv("STORAGE_EMULATOR_HOST"), os.Getenv("STORAGE_EMULATOR_HOST_GRPC")); emulated != "" {
		return emulated
	}
	universe := query.Get("universe_domain")
	if universe == "" && creds != nil {
		universe, _ = creds.GetUniverseDomain()
	}
	return "storage." + cmp.Or(universe, "googleapis.com")
}

// isNobody reports whether requests carry no credentials.
func isNobody(query url.Values) bool {
	emulated := os.Getenv("STORAGE_EMULATOR_HOST") != "" || os.Getenv("STORAGE_EMULATOR_HOST_GRPC") != ""
	return emulated || isTrue(query, "anonymous") || query.Get("access_id") == "-"
}

func isTrue(query url.Values, name string) bool {
	yes, _ := strconv.ParseBool(query.Get(name))
	return yes
}

// newClient returns a client with credentials, or without any for nil. It passes on only
// the answers that carry a mark of GCS.
func newClient(creds *google.Credentials, bucket string) (*gcp.HTTPClient, []option.ClientOption, error) {
	base := cloud.Marked(&thrifty{cloud.Transport()}, marks(bucket))
	if creds == nil {
		return gcp.NewAnonymousHTTPClient(base), nil, nil
	}
	client, err := gcp.NewHTTPClient(base, gcp.CredentialsTokenSource(creds))
	var opts []option.ClientOption
	if domain, err := creds.GetUniverseDomain(); err == nil {
		opts = append(opts, option.WithUniverseDomain(domain))
	}
	return client, opts, err
}

// onceKey is the context key of a flag: has the verb already read?
type onceKey struct{}

// once gives a verb's context that flag, so that the verb reads only once.
func once(ctx context.Context) context.Context {
	return context.WithValue(ctx, onceKey{}, new(atomic.Bool))
}

// thrifty makes one request for one read, and keeps its connection.
//
// If a body breaks off, the SDK asks again, whatever its retry policy is, and without end
// if each answer breaks off. It also closes some answers unread for which it has no use,
// such as those of a get that found no object, and so their connections are closed.
type thrifty struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *thrifty) RoundTrip(r *http.Request) (*http.Response, error) {
	if asked, ok := r.Context().Value(onceKey{}).(*atomic.Bool); ok && r.Method == http.MethodGet && asked.Swap(true) {
		return nil, cmp.Or(r.Context().Err(), io.ErrUnexpectedEOF)
	}
	answer, err := t.Transport.RoundTrip(r)
	// Not for an object's body: a caller that closes it early does not want the rest.
	if err == nil && (r.Method != http.MethodGet || answer.StatusCode >= 300) {
		answer.Body = &readOut{answer.Body}
	}
	return answer, err
}

// readOut is a body whose Close reads it to its end, if that is near.
type readOut struct{ io.ReadCloser }

// Close implements io.Closer.
func (b *readOut) Close() error {
	const near = 4 << 10
	_, _ = io.CopyN(io.Discard, b.ReadCloser, near)
	return b.ReadCloser.Close()
}
