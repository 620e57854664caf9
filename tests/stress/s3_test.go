//go:build linux || darwin

package stress

import (
	"bytes"
	"crypto/md5" //nolint:gosec // an ETag is one
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// s3Server keeps one bucket in memory and speaks as much of S3 as the six verbs
// need. It is a bad day's server: some answers take their time, some requests
// are throttled, and some answers are lost after the write was applied.
type s3Server struct {
	mu      sync.Mutex
	objects map[string]s3Object
	lost    int
}

type s3Object struct {
	body []byte
	at   time.Time
}

// s3Store starts a server and returns its store's URL. What this process and
// its children need to use it is in the environment.
func s3Store(t *testing.T) (*s3Server, string) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "word", "AWS_SESSION_TOKEN": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	s := &s3Server{objects: map[string]s3Object{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, "s3://bucket?endpoint=" + server.URL + "&region=us-east-1&use_path_style=true"
}

const (
	oneInThrottled = 50
	oneInLost      = 50
	slowest        = 20 * time.Millisecond
)

func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // whoever sent it was killed
		return
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body = unchunk(body)
	}
	time.Sleep(rand.N(slowest) / 2) //nolint:gosec // no secret
	if rand.IntN(oneInThrottled) == 0 {
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return
	}
	answer := httptest.NewRecorder()
	s.apply(answer, r, body)
	time.Sleep(rand.N(slowest) / 2)
	if r.Method == http.MethodPut && rand.IntN(oneInLost) == 0 {
		s.mu.Lock()
		s.lost++
		s.mu.Unlock()
		panic(http.ErrAbortHandler) // closes the connection
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (s *s3Server) apply(w http.ResponseWriter, r *http.Request, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, _ := strings.CutPrefix(r.URL.Path, "/bucket")
	key = strings.TrimPrefix(key, "/")
	object, found := s.objects[key]
	switch {
	case key == "" && r.Method == http.MethodGet:
		s.list(w, r)
	case r.Method == http.MethodPut && found && r.Header.Get("If-None-Match") == "*":
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		s.objects[key] = s3Object{bytes.Clone(body), time.Now()}
		w.Header().Set("ETag", etag(body))
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("Last-Modified", object.at.UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", strconv.Itoa(len(object.body)))
		w.Header().Set("ETag", etag(object.body))
		if r.Method == http.MethodGet {
			_, _ = w.Write(object.body)
		}
	}
}

func etag(body []byte) string {
	sum := md5.Sum(body) //nolint:gosec // an ETag is one
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>no</Message></Error>`, code)
}

type listed struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
}

func (s *s3Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after := max(q.Get("start-after"), q.Get("continuation-token"))
	limit, err := strconv.Atoi(q.Get("max-keys"))
	if err != nil || limit > 1000 {
		limit = 1000
	}
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	result := listResult{Name: "bucket"}
	if len(keys) > limit {
		keys = keys[:limit]
		result.IsTruncated, result.NextContinuationToken = true, keys[limit-1]
	}
	for _, key := range keys {
		object := s.objects[key]
		result.Contents = append(result.Contents, listed{
			key, object.at.UTC().Format("2006-01-02T15:04:05.000Z"), etag(object.body), len(object.body),
		})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(result)
}

// unchunk undoes aws-chunked: "SIZE;…\r\nBYTES\r\n" again and again, until a
// chunk of size 0, which trailers follow.
func unchunk(body []byte) (out []byte) {
	for {
		head, rest, found := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := strings.Cut(string(head), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if !found || err != nil || n == 0 || int(n)+2 > len(rest) {
			return out
		}
		out, body = append(out, rest[:n]...), rest[n+2:]
	}
}
