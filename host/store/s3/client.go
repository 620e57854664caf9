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

// connections makes the SDK's own client, which may know the user's CA, keep its
// connections.
func connections(o *sdk.Options) {
	if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = &plainBodies{client.WithTransportOptions(cloud.Tune)}
	}
}

// plainBodies sends requests whose bodies have no methods but Read and Close. The SDK's
// bodies also have WriteTo, which returns an error once the body is closed. The body is
// closed as soon as there is an answer. If that is before the client has noted the end of
// its write, the client would throw the connection away.
type plainBodies struct{ sdk.HTTPClient }

// Do implements sdk.HTTPClient.
func (c *plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}
