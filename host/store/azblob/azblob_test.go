package azblob

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// TestMain sets the credentials of Microsoft's emulators, which are public. gocloud reads
// them once in a process.
func TestMain(m *testing.M) {
	setDefault("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
	setDefault("AZURE_STORAGE_KEY", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
	m.Run()
}

func at(hostPort string) string {
	return "azblob://container/locks?protocol=http&localemu=true&domain=" + hostPort
}

func code(c string) map[string]string { return map[string]string{"x-ms-error-code": c} }

func TestReplies(t *testing.T) {
	storetest.RunReplies(t, at, []storetest.Reply{
		{Name: "absent", Op: "get", Status: 404, Header: code("BlobNotFound"), Is: store.ErrAbsent},
		{Name: "absent", Op: "exists", Status: 404, Header: code("BlobNotFound"), Is: store.ErrAbsent},
		{Name: "no_container", Op: "get", Status: 404, Header: code("ContainerNotFound"), Class: core.ClassNoSuchStore},
		{Name: "no_container", Op: "exists", Status: 404, Header: code("ContainerNotFound"), Class: core.ClassNoSuchStore},
		{Name: "no_container", Op: "put", Status: 404, Header: code("ContainerNotFound"), Class: core.ClassNoSuchStore},
		{Name: "denied", Op: "get", Status: 403, Header: code("AuthenticationFailed"), Class: core.ClassUnauthorized},
		{Name: "denied", Op: "create", Status: 403, Header: code("AuthorizationPermissionMismatch"), Class: core.ClassUnauthorized},
		{Name: "exists", Op: "create", Status: 409, Header: code("BlobAlreadyExists"), Is: store.ErrExists},
		{Name: "condition", Op: "create", Status: 412, Header: code("ConditionNotMet"), Is: store.ErrExists},
		{Name: "leased", Op: "create", Status: 412, Header: code("LeaseIdMissing"), Class: core.ClassOther},
		{Name: "patience", Op: "put", Status: 503, Header: map[string]string{"x-ms-error-code": "ServerBusy", "Retry-After": "7"}, Class: core.ClassThrottled, RetryAfter: 7 * time.Second},
		{Name: "cut_short", Op: "get", Status: 200, Header: map[string]string{
			"Content-Type": "application/json", "Last-Modified": "Sat, 21 Nov 2026 14:00:00 GMT", "ETag": "1", "x-ms-request-id": "1",
			"Content-MD5": "XUFAKrxLKna5cZ2REBfFkg==", // of hello
		}, Body: "hell", Class: core.ClassUnreachable},
		{Name: "timed_out", Op: "create", Status: 500, Header: code("OperationTimedOut"), Class: core.ClassUnreachable},
	})
}

func setDefault(name, value string) {
	if os.Getenv(name) == "" {
		os.Setenv(name, value)
	}
}

func TestTransfers(t *testing.T) {
	storetest.RunTransfers(t, storetest.Transfers{
		URL:    at,
		Makes:  func(r *http.Request) bool { return r.Method == http.MethodPut && r.URL.Query().Get("comp") != "block" },
		Answer: func(w http.ResponseWriter, _ *http.Request, _ int64) { own(w, nil) },
	})
}

// own answers an upload as Azure does.
func own(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("x-ms-request-id", "1")
	w.Header().Set("ETag", "1")
	w.WriteHeader(http.StatusCreated)
}

// TestForeign: what is not Azure's own word is unknown.
func TestForeign(t *testing.T) {
	storetest.RunForeign(t, storetest.Foreign{
		URL: func(hostPort string) string { return strings.Replace(at(hostPort), "container", "bucket", 1) },
		Own: own,
		List: func(bucket, prefix string) string {
			return "\ufeff" + `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://e/" ContainerName="` + bucket + `"><Prefix>` + prefix +
				`</Prefix><Blobs><Blob><Name>` + prefix + `object</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0</Etag>` +
				`<Content-Length>2</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob></Blobs><NextMarker /></EnumerationResults>`
		},
		Error: `<?xml version="1.0" encoding="utf-8"?><Error><Code>InternalError</Code><Message>m</Message></Error>`,
		Mark:  map[string]string{"x-ms-request-id": "1", "Content-Type": "application/xml"},
	})
}

func TestParts(t *testing.T) {
	for _, size := range []int64{-1, 0, 1, smallBlock * maxBlocks, smallBlock*maxBlocks + 1, largeBlock * maxBlocks} {
		part, workers := parts(size)
		if part*workers > store.MaxBuffer || int64(part)*maxBlocks < size {
			t.Errorf("%d: %d by %d", size, part, workers)
		}
		if size < 0 && part != largeBlock {
			t.Errorf("of unknown size: %d", part)
		}
	}
}
