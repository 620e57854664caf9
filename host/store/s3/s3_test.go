package s3

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

func environment(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "word", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
}

func at(hostPort string) string {
	return "s3://bucket/locks?region=us-east-1&use_path_style=true&endpoint=http://" + hostPort
}

func reply(code string) string {
	return `<?xml version="1.0"?><Error><Code>` + code + `</Code><Message>m</Message></Error>`
}

func TestReplies(t *testing.T) {
	environment(t)
	xml, id := map[string]string{"Content-Type": "application/xml"}, map[string]string{"X-Amz-Request-Id": "1"}
	storetest.RunReplies(t, at, []storetest.Reply{
		{Name: "absent", Op: "get", Status: 404, Header: xml, Body: reply("NoSuchKey"), Is: store.ErrAbsent},
		{Name: "absent", Op: "exists", Status: 404, Header: id, Is: store.ErrAbsent},
		{Name: "no_bucket", Op: "get", Status: 404, Header: xml, Body: reply("NoSuchBucket"), Class: core.ClassNoSuchStore},
		{Name: "no_bucket", Op: "put", Status: 404, Header: xml, Body: reply("NoSuchBucket"), Class: core.ClassNoSuchStore},
		{Name: "other_region", Op: "exists", Status: 301, Header: id, Class: core.ClassNoSuchStore},
		{Name: "denied", Op: "get", Status: 403, Header: xml, Body: reply("AccessDenied"), Class: core.ClassUnauthorized},
		{Name: "denied", Op: "exists", Status: 403, Header: id, Class: core.ClassUnauthorized},
		{Name: "expired", Op: "put", Status: 400, Header: xml, Body: reply("ExpiredToken"), Class: core.ClassUnauthorized},
		{Name: "exists", Op: "create", Status: 412, Header: xml, Body: reply("PreconditionFailed"), Is: store.ErrExists},
		{Name: "conflict", Op: "create", Status: 409, Header: xml, Body: reply("ConditionalRequestConflict"), Class: core.ClassOther},
		{Name: "patience", Op: "put", Status: 503, Header: map[string]string{"Retry-After": "7"}, Body: reply("SlowDown"), Class: core.ClassThrottled, RetryAfter: 7 * time.Second},
		{Name: "patience", Op: "exists", Status: 429, Header: map[string]string{"Retry-After": "3600"}, Class: core.ClassThrottled, RetryAfter: store.MaxRetryAfter},
		{Name: "broken_patience", Op: "get", Status: 500, Header: map[string]string{"Retry-After": "7"}, Body: reply("InternalError"), Class: core.ClassOther},
		{Name: "not_s3", Op: "get", Status: 200, Body: "", Header: map[string]string{"Content-Length": "10"}, Class: core.ClassUnreachable},
	})
}

// TestForeign: what is not S3's own word is unknown.
func TestForeign(t *testing.T) {
	environment(t)
	storetest.RunForeign(t, storetest.Foreign{
		URL: at,
		Own: func(w http.ResponseWriter, r *http.Request) { answer(w, r, 0) },
		List: func(bucket, prefix string) string {
			return `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>` + bucket + `</Name><Prefix>` + prefix +
				`</Prefix><IsTruncated>false</IsTruncated><Contents><Key>` + prefix + `object</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>` +
				`<Size>2</Size></Contents></ListBucketResult>`
		},
		Error: reply("InternalError"),
		Mark:  map[string]string{"X-Amz-Request-Id": "1", "ETag": `"e"`},
	})
}

// TestNoMarkOnHeads: a server that marks no answer to a HEAD is asked by a GET, whose 404
// has S3's code in its body. One that does not even mark that says nothing.
func TestNoMarkOnHeads(t *testing.T) {
	environment(t)
	for body, want := range map[string]string{reply("NoSuchKey"): "absent", "<html/>": "unknown", reply("NoSuchBucket"): "unknown"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, body)
			}
		}))
		s, err := store.Open(t.Context(), at(server.Listener.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		there, err := s.Exists(t.Context(), "k")
		if there || (err == nil) != (want == "absent") {
			t.Errorf("%s: %v, %v", body, there, err)
		}
		s.Close()
		server.Close()
	}
}

// TestClock: the endpoint that requests go to decides whether stamps are trusted, also one of
// the environment or of AWS' files.
func TestClock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[default]\nendpoint_url = http://minio.example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const own, vpc = "s3://b?region=us-east-1", "https://bucket.vpce-1a2b.s3.us-east-1.vpce.amazonaws.com"
	for _, c := range []struct {
		name, value, url string
		steps            bool
	}{
		{"", "", own, false},
		{"", "", own + "&clock=hint", true},
		{"", "", own + "&endpoint=http://127.0.0.1:1", true},
		{"", "", own + "&endpoint=http://127.0.0.1:1&clock=steady", false},
		{"", "", own + "&endpoint=" + vpc, false},
		{"AWS_ENDPOINT_URL", "http://127.0.0.1:1", own, true},
		{"AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", own, true},
		{"AWS_ENDPOINT_URL_S3", vpc, own, false},
		{"AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", own + "&endpoint=" + vpc, false},
		{"AWS_CONFIG_FILE", file, own, true},
	} {
		t.Run(c.name+" "+c.url, func(t *testing.T) {
			environment(t)
			if c.name != "" {
				t.Setenv(c.name, c.value)
			}
			s, err := store.Open(t.Context(), c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if steps, why := store.ClockSteps(s); steps != c.steps {
				t.Errorf("%v: %s", steps, why)
			}
		})
	}
}

// TestEndpointOfURL: the URL's endpoint is asked, whatever the environment says.
func TestEndpointOfURL(t *testing.T) {
	environment(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		w.Header().Set("ETag", `"e"`)
	}))
	defer server.Close()
	s, err := store.Open(t.Context(), at(server.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "k", nil, ""); err != nil || !asked {
		t.Error(err)
	}
}

func TestNoCredentials(t *testing.T) {
	environment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	s, err := store.Open(t.Context(), at("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Get(t.Context(), "k")
	var e *store.Error
	if !errors.As(err, &e) || e.Class != core.ClassUnauthorized {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), "s3://bucket?secret=hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "secret") {
		t.Errorf("with an unknown parameter: %v", err)
	}
}

// TestListedByAlias: the lists of an access point have its bucket's name.
func TestListedByAlias(t *testing.T) {
	for bucket, is := range map[string]bool{
		"arn:aws:s3:us-east-1:1:accesspoint/a": true, "a-k3-s3alias": true, "a--ol-s3": true, "a-k3--op-s3": true, "a--use1-az4--xa-s3": true,
		"a--use1-az4--x-s3": false, "a-s3": false,
	} {
		body := io.NopCloser(strings.NewReader("<ListBucketResult><Name>b</Name></ListBucketResult>"))
		if missing, err := listed(bucket, nil, &http.Response{StatusCode: http.StatusOK, Body: body}); err != nil || (missing == "") != is {
			t.Errorf("%s: %s, %v", bucket, missing, err)
		}
	}
}

// TestEmptyAnswers: an empty answer with an ETag is S3's, whatever a server calls it. moto calls
// that of a PUT HTML, without a request id.
func TestEmptyAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("ETag", `"0"`)
	}))
	defer server.Close()
	environment(t)
	s, err := store.Open(t.Context(), at(server.Listener.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "n/k", []byte("1"), ""); err != nil {
		t.Error(err)
	}
}
