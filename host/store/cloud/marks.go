package cloud

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// A captive portal, a load balancer or a broken gateway answers 200 without a body, 200
// with a web page, or 404 with one. The SDKs take an empty list for an empty bucket, an
// empty completion for a stored upload, and any 404 for an absent object. So each driver
// package says by which mark it knows its service, and no SDK sees an answer without it.

// Check looks for the service's mark in an answer to r. It returns what is missing, in
// words, or "". To look at the body, it calls Document.
type Check func(r *http.Request, answer *http.Response) (missing string, err error)

// Marked returns a transport that passes on the service's own answers. Any other answer
// becomes an *UnmarkedError, so that the outcome of its request is unknown. A status that
// is neither yes nor no needs no mark: it leaves the outcome open in any case.
func Marked(base http.RoundTripper, check Check) http.RoundTripper { return &marked{base, check} }

type marked struct {
	base  http.RoundTripper
	check Check
}

// RoundTrip implements http.RoundTripper.
func (m *marked) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := m.base.RoundTrip(r)
	if err != nil || isOpen(answer.StatusCode) {
		return answer, err
	}
	missing, err := m.check(r, answer)
	if err == nil && missing == "" {
		return answer, nil
	}
	if err == nil {
		err = &UnmarkedError{Status: answer.StatusCode, Type: mediaType(answer), Missing: missing}
	}
	// An answer of some KiB is read, so that its connection serves the next request.
	_, _ = io.CopyN(io.Discard, answer.Body, near)
	_ = answer.Body.Close()
	return nil, err
}

const near = 4 << 10

// CloseIdleConnections is what http.Client calls.
func (m *marked) CloseIdleConnections() {
	if idle, ok := m.base.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// isOpen reports whether a status leaves the outcome open, from any sender.
func isOpen(status int) bool {
	switch status {
	case http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// UnmarkedError is an answer that is not the service's own word.
type UnmarkedError struct {
	Status  int
	Type    string // of its content, or ""
	Missing string
}

// Error implements error.
func (e *UnmarkedError) Error() string {
	kind := ""
	if e.Type != "" {
		kind = " " + e.Type
	}
	return fmt.Sprintf("this answer is not the store's own: %d%s, without %s", e.Status, kind, e.Missing)
}

// isUnmarkedNo reports whether err is an answer that would mean "absent" if it were the
// service's own.
func isUnmarkedNo(err error) bool {
	e, ok := errors.AsType[*UnmarkedError](err)
	return ok && e.Status == http.StatusNotFound
}

func mediaType(answer *http.Response) string {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return kind
}

// IsPage reports whether an answer is a web page. Some servers call an empty answer HTML.
func IsPage(answer *http.Response) bool {
	return mediaType(answer) == "text/html" && answer.ContentLength != 0
}

// maxDocument is the size in bytes above which no list is read: a thousand keys of the
// greatest length, each character of which is escaped, have 7 MiB.
const maxDocument = 16 << 20

// Document reads the body of an answer, which stays readable for the SDK.
func Document(answer *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument))
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// ReadXML decodes a document, and reports whether it is whole and has the root element
// that into's XMLName asks for.
func ReadXML(body []byte, into any) bool {
	return xml.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), into) == nil
}

// IsXMLError reports whether a document is the <Error> with a <Code> that S3, GCS and
// Azure send.
func IsXMLError(body []byte) bool {
	var document struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
	}
	return ReadXML(body, &document) && strings.TrimSpace(document.Code) != ""
}

// ReadJSON decodes a document, and reports whether it is whole.
func ReadJSON(body []byte, into any) bool { return json.Unmarshal(body, into) == nil }
