package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// awsLike has the methods of the AWS SDK's errors.
type awsLike struct {
	status int
	code   string
}

func (e awsLike) Error() string       { return fmt.Sprintf("api error %s %d", e.code, e.status) }
func (e awsLike) HTTPStatusCode() int { return e.status }
func (e awsLike) ErrorCode() string   { return e.code }

func TestVerdictOfAnswers(t *testing.T) {
	const absent, exists = "absent", "exists"
	for _, c := range []struct {
		status    int
		code      string
		op        string
		want      string // absent, exists, or "" for unknown
		wantClass core.Class
	}{
		{404, "NoSuchKey", "get", absent, 0},
		{404, "NotFound", "exists", absent, 0},
		{404, "", "get", absent, 0},
		{404, "NoSuchBucket", "get", "", core.ClassNoSuchStore},
		{404, "", "put", "", core.ClassNoSuchStore},
		{404, "NoSuchUpload", "put", "", core.ClassOther},
		{404, "", "create", "", core.ClassNoSuchStore},
		{404, "", "list", "", core.ClassNoSuchStore},
		{301, "PermanentRedirect", "get", "", core.ClassNoSuchStore},
		{301, "", "exists", "", core.ClassNoSuchStore},           // gocloud says not found
		{403, "forbidden", "exists", "", core.ClassUnauthorized}, // gocloud says not found
		{401, "", "put", "", core.ClassUnauthorized},
		{400, "ExpiredToken", "put", "", core.ClassUnauthorized},
		{403, "rateLimitExceeded", "put", "", core.ClassThrottled},
		{429, "", "put", "", core.ClassThrottled},
		{503, "", "get", "", core.ClassThrottled},
		{500, "InternalError", "create", "", core.ClassOther},
		{504, "", "create", "", core.ClassUnreachable},
		{507, "", "put", "", core.ClassFull},
		{412, "PreconditionFailed", "create", exists, 0},
		{412, "", "put", "", core.ClassOther},
		{412, "LeaseIdMissing", "create", "", core.ClassOther},
		{409, "BlobAlreadyExists", "create", exists, 0},
		{409, "ConditionalRequestConflict", "create", "", core.ClassOther},
	} {
		s := New(memblob.OpenBucket(nil), nil)
		err := s.fail(c.op, "k", fmt.Errorf("operation error: %w", awsLike{c.status, c.code}))
		var e *store.Error
		if !errors.As(err, &e) || e.Class != c.wantClass ||
			errors.Is(err, store.ErrAbsent) != (c.want == absent) || errors.Is(err, store.ErrExists) != (c.want == exists) {
			t.Errorf("%s %d %s: %v, class %d; want %q, class %d", c.op, c.status, c.code, err, e.Class, c.want, c.wantClass)
		}
		if text := err.Error(); !strings.Contains(text, fmt.Sprintf("the server answered %d", c.status)) || !strings.Contains(text, c.code) {
			t.Errorf("text %q", text)
		}
	}
}

// If a server says that it does not know If-None-Match, that is for good.
func TestUnsupportedCreate(t *testing.T) {
	for _, c := range []struct {
		awsLike

		op   string
		want bool
	}{
		{awsLike{501, "NotImplemented"}, "create", true},
		{awsLike{501, ""}, "create", true},
		{awsLike{400, "NotImplemented"}, "create", true},
		{awsLike{501, "NotImplemented"}, "put", false},
		{awsLike{500, "InternalError"}, "create", false},
	} {
		err := New(memblob.OpenBucket(nil), nil).fail(c.op, "k", fmt.Errorf("operation error: %w", c.awsLike))
		if errors.Is(err, errors.ErrUnsupported) != c.want {
			t.Errorf("%s: %d %s: %v", c.op, c.status, c.code, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	const date = "Sun, 06 Nov 1994 08:49:37 GMT"
	for _, c := range []struct {
		said, date string
		want       time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"3", "", 3 * time.Second},
		{"4294967295", "", store.MaxRetryAfter},
		{"99999999999999999999", "", 0},
		{"-1", "", 0},
		{"soon", "", 0},
		{"Sun, 06 Nov 1994 08:49:41 GMT", date, 4 * time.Second},
		{"Sun, 06 Nov 1994 08:49:01 GMT", date, 0},
		{"Sun, 06 Nov 2044 08:49:37 GMT", date, store.MaxRetryAfter},
		{"Sun, 06 Nov 1994 08:49:41 GMT", "", 0}, // long past by our own clock
	} {
		header := http.Header{"Retry-After": {c.said}, "Date": {c.date}}
		if got := RetryAfter(header); got != c.want {
			t.Errorf("%q at %q: %v, want %v", c.said, c.date, got, c.want)
		}
	}
}

// fake is a driver that returns a given error, or lists given keys.
type fake struct {
	driver.Bucket
	err  error
	code gcerrors.ErrorCode
	keys []string
}

func (f *fake) ErrorCode(error) gcerrors.ErrorCode { return f.code }
func (f *fake) ErrorAs(error, any) bool            { return false }
func (f *fake) As(any) bool                        { return false }
func (f *fake) Close() error                       { return nil }

func (f *fake) Attributes(context.Context, string) (*driver.Attributes, error) { return nil, f.err }

func (f *fake) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	return nil, f.err
}

func (f *fake) Delete(context.Context, string, *driver.DeleteOptions) error { return f.err }

func (f *fake) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	return nil, f.err
}

func (f *fake) ListPaged(_ context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	page := &driver.ListPage{}
	for _, key := range f.keys {
		page.Objects = append(page.Objects, &driver.ListObject{Key: key})
	}
	return page, f.err
}

// TestNotFoundIsNotBelieved: gocloud's code is NotFound for all of these errors, and none
// may make a lease look free.
func TestNotFoundIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		err  error
		want core.Class
	}{
		{awsLike{301, ""}, core.ClassNoSuchStore},
		{awsLike{403, "AccessDenied"}, core.ClassUnauthorized},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "account.blob.core.windows.net", IsNotFound: true}}, core.ClassUnreachable},
		{context.DeadlineExceeded, core.ClassUnreachable},
	} {
		s := New(blob.NewBucket(&fake{err: c.err, code: gcerrors.NotFound}), nil)
		_, errGet := s.Get(t.Context(), "k")
		there, errExists := s.Exists(t.Context(), "k")
		if there {
			t.Fatal("exists")
		}
		for _, err := range []error{errGet, errExists, s.Delete(t.Context(), "k")} {
			var e *store.Error
			if !errors.As(err, &e) || errors.Is(err, store.ErrAbsent) || e.Class != c.want {
				t.Errorf("of %v: %v", c.err, err)
			}
		}
	}
}

func TestCodesOfDriversWithoutAnswers(t *testing.T) {
	for code, want := range map[gcerrors.ErrorCode]core.Class{
		gcerrors.PermissionDenied: core.ClassUnauthorized, gcerrors.ResourceExhausted: core.ClassThrottled,
		gcerrors.DeadlineExceeded: core.ClassUnreachable, gcerrors.Unknown: core.ClassOther,
		gcerrors.FailedPrecondition: core.ClassOther, // of a put
		gcerrors.NotFound:           core.ClassNoSuchStore,
	} {
		s := New(blob.NewBucket(&fake{err: errors.New("x"), code: code}), nil)
		err := s.Put(t.Context(), "k", nil, "")
		var e *store.Error
		if !errors.As(err, &e) || e.Class != want || errors.Is(err, store.ErrExists) {
			t.Errorf("code %v: %v", code, err)
		}
		if err := s.Create(t.Context(), "k", nil, ""); errors.Is(err, store.ErrExists) != (code == gcerrors.FailedPrecondition) {
			t.Errorf("code %v: %v", code, err)
		}
	}
}

func TestDriverClassComesFirst(t *testing.T) {
	s := New(blob.NewBucket(&fake{err: awsLike{404, ""}, code: gcerrors.NotFound}),
		&Options{Class: func(error) core.Class { return core.ClassUnauthorized }})
	_, err := s.Get(t.Context(), "k")
	var e *store.Error
	if !errors.As(err, &e) || e.Class != core.ClassUnauthorized {
		t.Fatal(err)
	}
}

// TestDisorderIsRefused: a list out of order is an error, since its pages would lose keys.
func TestDisorderIsRefused(t *testing.T) {
	s := New(blob.NewBucket(&fake{keys: []string{"a", "c", "b"}}), nil)
	_, _, err := s.List(t.Context(), "", "", 0)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
}

// TestForeignObjects: a list does not show objects that no verb can read.
func TestForeignObjects(t *testing.T) {
	s := New(blob.NewBucket(&fake{keys: []string{"p/", "p/a#b", "p/b", "p/c//d", "p/d/"}}), &Options{Prefix: "p/", Refused: "#"})
	page, more, err := s.List(t.Context(), "", "", 0)
	if err != nil || more || len(page) != 1 || page[0].Key != "b" {
		t.Fatal(page, more, err)
	}
}

func TestKeysThatWouldMove(t *testing.T) {
	s := New(memblob.OpenBucket(nil), &Options{Refused: `"#%?`})
	for _, key := range []string{"a#b", "a?b", "100%", `a"b`, "a__0x41__b", "a../b"} {
		if err := s.Put(t.Context(), key, nil, ""); !errors.Is(err, store.ErrKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestLateUploadIsNotSent: the clock decides, and not the context's timer, as it is for
// directories.
func TestLateUploadIsNotSent(t *testing.T) {
	s := New(memblob.OpenBucket(nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	for _, err := range []error{
		s.Put(ctx, "k", nil, ""), s.Create(ctx, "k", nil, ""), s.Delete(ctx, "k"),
		s.PutFrom(ctx, "k", strings.NewReader("x"), 1, ""), s.CreateFrom(ctx, "k", strings.NewReader("x"), 1, ""),
	} {
		overdue(t, s, err)
	}
}

// overdue checks that an upload was too late, and was not applied.
func overdue(t *testing.T, s *Store, err error) {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || e.Class != core.ClassUnreachable {
		t.Fatal(err)
	}
	if there, err := s.Exists(t.Context(), "k"); there || err != nil {
		t.Fatal(there, err)
	}
}

func TestStampsAreCut(t *testing.T) {
	s := New(memblob.OpenBucket(nil), &Options{StampUnit: time.Second})
	if got := s.stamp(time.Unix(7, 999)); got != 7e9 {
		t.Fatal(got)
	}
	if got := s.stamp(time.Time{}); got != 0 {
		t.Fatal(got)
	}
}

// TestOverdueDuringTransfer: an upload that began in time, but ended too late, is not applied.
func TestOverdueDuringTransfer(t *testing.T) {
	s := New(memblob.OpenBucket(nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	looks := 0
	s.now = func() time.Time {
		if looks++; looks > 1 {
			return time.Now().Add(2 * time.Hour)
		}
		return time.Now()
	}
	overdue(t, s, s.PutFrom(ctx, "k", strings.NewReader("x"), 1, ""))
}

// TestDriverThatReadsLess: if a driver says yes before it has read the whole body, that is
// an error.
func TestDriverThatReadsLess(t *testing.T) {
	s := New(memblob.OpenBucket(nil), &Options{Upload: func(context.Context, *Upload) error { return nil }})
	var e *store.Error
	if err := s.PutFrom(t.Context(), "k", strings.NewReader("x"), 1, ""); !errors.As(err, &e) || e.Class != core.ClassOther {
		t.Fatal(err)
	}
}

// broken is a driver whose objects break off, with or without an error.
type broken struct {
	fake
	err error
}

func (b *broken) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	return &half{Reader: strings.NewReader("half"), err: b.err}, nil
}

type half struct {
	*strings.Reader

	err error
}

func (h *half) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err == io.EOF {
		err = h.err
	}
	return n, err
}
func (h *half) Close() error                         { return nil }
func (h *half) Attributes() *driver.ReaderAttributes { return &driver.ReaderAttributes{Size: 8} }
func (h *half) As(any) bool                          { return false }

func TestOpenThatBreaksOff(t *testing.T) {
	for _, c := range []struct {
		err   error
		class core.Class
	}{{io.EOF, core.ClassUnreachable}, {awsLike{404, ""}, core.ClassOther}, {awsLike{503, "SlowDown"}, core.ClassThrottled}} {
		s := New(blob.NewBucket(&broken{fake: fake{code: gcerrors.NotFound}, err: c.err}), nil)
		body, info, err := s.Open(t.Context(), "k")
		if err != nil || info.Size != 8 {
			t.Fatal(info, err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		var e *store.Error
		if string(got) != "half" || !errors.As(err, &e) || e.Class != c.class || errors.Is(err, store.ErrAbsent) {
			t.Errorf("of %v: %q, %v", c.err, got, err)
		}
	}
}

// TestTransport: connections under HTTP/2 are pinged, the user's proxy is used, and there
// is no bound on connections in use.
func TestTransport(t *testing.T) {
	for name, tuned := range map[string]*http.Transport{"own": Transport(), "tuned": {}} {
		Tune(tuned)
		if tuned.HTTP2 == nil || tuned.HTTP2.SendPingTimeout <= 0 || tuned.HTTP2.PingTimeout <= 0 {
			t.Errorf("%s: no pings", name)
		}
		if tuned.MaxConnsPerHost != 0 || tuned.MaxIdleConns != 0 || tuned.MaxIdleConnsPerHost < 64 || tuned.IdleConnTimeout == 0 {
			t.Errorf("%s: %+v", name, tuned)
		}
	}
	if own := Transport(); own.Proxy == nil || own.TLSHandshakeTimeout == 0 || own.DialContext == nil {
		t.Errorf("%+v", own)
	}
}

// TestTransportSpeaksHTTP2: it does with a server that speaks it.
func TestTransportSpeaksHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	own := Transport()
	own.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	answer, err := (&http.Client{Transport: own}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || string(said) != "HTTP/2.0" {
		t.Errorf("%q, %v", said, err)
	}
	own.CloseIdleConnections()
}
