package s3

import (
	"io"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/mopslock/mopslock/host/store/cloud"
)

// once keeps the SDK from trying again, and from a line on stderr for each read
// from a server that sends no checksums.
func once(o *sdk.Options) {
	o.RetryMaxAttempts = 1
	o.DisableLogOutputChecksumValidationSkipped = true
}

// connections has the SDK's own client, which may know a CA of the user's, keep its
// connections.
func connections(o *sdk.Options) {
	if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
		o.HTTPClient = &plainBodies{client.WithTransportOptions(cloud.Tune)}
	}
}

// plainBodies sends requests whose bodies can be read and nothing else. The SDK's
// WriteTo answers with an error once the body is closed, which it is as soon as there
// is an answer; where that is sooner than the end of the write was noted, the
// connection would be thrown away.
type plainBodies struct{ sdk.HTTPClient }

// Do implements sdk.HTTPClient.
func (c *plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}
