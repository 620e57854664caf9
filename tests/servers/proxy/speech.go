package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
)

// Op is the verb that a request is for, as a store has it.
type Op string

// The verbs, and Other for all that is none. On S3 a store's delete is an Exists and a Delete.
const (
	Get    Op = "get"
	Put    Op = "put"
	Create Op = "create"
	Exists Op = "exists"
	List   Op = "list"
	Delete Op = "delete"
	Part   Op = "part" // any request of a transfer in parts
	Other  Op = "other"
)

// writes reports whether OwnSuccess changes the answer to this verb.
func (op Op) writes() bool { return op == Put || op == Create }

// speech is how one protocol speaks.
type speech struct {
	// what tells a request's verb and its object's key.
	what func(r *http.Request, body []byte) (Op, string)
	// refusal returns the body of an answer with this status, and sets its headers.
	refusal func(status int, header http.Header) string
	// list returns a true list of a bucket, in which nothing is below any prefix that is
	// asked for; with "" it is the request's own. It sets the headers of its answer.
	list func(r *http.Request, bucket string, header http.Header) string
	// ownHost: the server wants to be called by its own address.
	ownHost bool
}

var speeches = map[string]speech{
	"s3":     {what: whatS3, refusal: refusalS3, list: listS3},
	"gs":     {what: whatGCS, refusal: refusalGCS, list: listGCS, ownHost: true},
	"azblob": {what: whatAzure, refusal: refusalAzure, list: listAzure},
}

// The statuses of refusals.
const (
	conflict  = http.StatusConflict
	ownMatch  = http.StatusPreconditionFailed
	throttled = http.StatusTooManyRequests
	broken    = http.StatusInternalServerError
	busy      = http.StatusServiceUnavailable
)

// plain tells the verb of a request about one object by its method.
func plain(r *http.Request) Op {
	switch r.Method {
	case http.MethodGet:
		return Get
	case http.MethodHead:
		return Exists
	case http.MethodDelete:
		return Delete
	case http.MethodPut:
		if r.Header.Get("If-None-Match") == "*" {
			return Create
		}
		return Put
	}
	return Other
}

// whatS3 knows addresses in the path style: /bucket/key.
func whatS3(r *http.Request, _ []byte) (Op, string) {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	switch {
	case key == "" && r.Method == http.MethodGet:
		return List, query.Get("prefix")
	case key == "":
		return Other, ""
	case query.Has("uploads"), query.Has("uploadId"):
		return Part, key
	}
	return plain(r), key
}

// whatAzure knows the addresses of emulators: /account/container/key.
func whatAzure(r *http.Request, _ []byte) (Op, string) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	_, key, _ := strings.Cut(path, "/")
	query := r.URL.Query()
	switch comp := query.Get("comp"); {
	case comp == "list" && query.Get("restype") == "container":
		return List, query.Get("prefix")
	case key == "":
		return Other, ""
	case comp == "block", comp == "blocklist":
		return Part, key
	case comp != "":
		return Other, key
	}
	return plain(r), key
}

// whatGCS knows the JSON API, and reads by the XML API's address, /bucket/key.
func whatGCS(r *http.Request, body []byte) (Op, string) {
	path := r.URL.EscapedPath()
	if strings.HasPrefix(path, "/upload/") {
		return whatUpload(r, body)
	}
	below, isJSON := strings.CutPrefix(path, "/storage/v1/b")
	if !isJSON {
		_, key, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		return plain(r), unescaped(key)
	}
	_, object, _ := strings.Cut(strings.TrimPrefix(below, "/"), "/")
	key, isObject := strings.CutPrefix(object, "o/")
	switch {
	case object == "o" && r.Method == http.MethodGet:
		return List, r.URL.Query().Get("prefix")
	case !isObject:
		return Other, ""
	case r.Method == http.MethodGet && r.URL.Query().Get("alt") != "media":
		return Exists, unescaped(key)
	}
	return plain(r), unescaped(key)
}

// whatUpload: an upload in one request is a form of metadata and body.
func whatUpload(r *http.Request, body []byte) (Op, string) {
	query := r.URL.Query()
	if query.Get("uploadType") != "multipart" {
		return Part, query.Get("name")
	}
	key := query.Get("name")
	if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && key == "" {
		var about struct{ Name string }
		if part, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).NextPart(); err == nil {
			if err := json.NewDecoder(part).Decode(&about); err == nil || err == io.EOF {
				key = about.Name
			}
		}
	}
	if query.Get("ifGenerationMatch") == "0" {
		return Create, key
	}
	return Put, key
}

func unescaped(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}

func refusalS3(status int, header http.Header) string {
	code := map[int]string{
		conflict: "ConditionalRequestConflict", ownMatch: "PreconditionFailed",
		throttled: "TooManyRequests", broken: "InternalError", busy: "SlowDown",
	}[status]
	header.Set("Content-Type", "application/xml")
	header.Set("X-Amz-Request-Id", "0")
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<Error><Code>%s</Code><Message>said by the proxy</Message><RequestId>0</RequestId></Error>`, code)
}

func refusalGCS(status int, header http.Header) string {
	reason := map[int]string{
		conflict: "conflict", ownMatch: "conditionNotMet",
		throttled: "rateLimitExceeded", broken: "internalError", busy: "backendError",
	}[status]
	header.Set("Content-Type", "application/json; charset=UTF-8")
	return fmt.Sprintf(`{"error":{"code":%d,"message":"said by the proxy",`+
		`"errors":[{"domain":"global","reason":%q,"message":"said by the proxy"}]}}`, status, reason)
}

// refusalAzure: in a race between writers Azure itself says BlobAlreadyExists, which
// is definite. This 409 is of another kind, and leaves open what is there.
func refusalAzure(status int, header http.Header) string {
	code := map[int]string{
		conflict: "PendingCopyOperation", ownMatch: "ConditionNotMet",
		throttled: "TooManyRequests", broken: "InternalError", busy: "ServerBusy",
	}[status]
	header.Set("Content-Type", "application/xml")
	header.Set("X-Ms-Error-Code", code)
	header.Set("X-Ms-Request-Id", "0")
	return fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?>`+"\n"+
		`<Error><Code>%s</Code><Message>said by the proxy</Message></Error>`, code)
}
