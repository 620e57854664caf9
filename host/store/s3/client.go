package s3

import (
	"io"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/mopslock/mopslock/host/store/cloud"
)

// once keeps the SDK from retrying, and from printing a line on stderr for each read from
// a server that sends no checksums.
func once(o *sdk.Options) {
	o.RetryMaxAttempts = 1
	o.DisableLogOutputChecksumValidationSkipped = true
}

// connections makes a client on the SDK's own transport, which may know the user's CA. It
// keeps its connections, and passes on only the answers that carry a mark of S3.
func connections(check cloud.Check) func(*sdk.Options) {
	return func(o *sdk.Options) {
		buildable, ok := o.HTTPClient.(*awshttp.BuildableClient)
		if !ok {
			panic("mopslock: store: s3: the SDK's HTTP client is not its own")
		}
		transport := buildable.GetTransport()
		cloud.Tune(transport)
		o.HTTPClient = &http.Client{
			Transport:     plainBodies{cloud.Marked(transport, check)},
			CheckRedirect: redirect,
			Timeout:       buildable.GetTimeout(),
		}
	}
}

// redirect follows what the SDK's own client follows, up to as many times as Go's does.
func redirect(r *http.Request, via []*http.Request) error {
	const most = 10
	switch r.Response.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if len(via) < most {
			return nil
		}
	}
	return http.ErrUseLastResponse
}

// plainBodies sends requests whose bodies have no methods but Read and Close. The SDK's
// bodies also have WriteTo, which returns an error once the body is closed. The body is
// closed as soon as there is an answer. If that is before the client has noted the end of
// its write, the client would throw the connection away.
type plainBodies struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p plainBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		plain := *r
		plain.Body = struct{ io.ReadCloser }{r.Body}
		r = &plain
	}
	return p.RoundTripper.RoundTrip(r)
}
