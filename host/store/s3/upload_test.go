package s3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/blob/s3blob"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
	"github.com/mopslock/mopslock/host/store/storetest"
)

// step names what a request of an upload does: put, begin, part, complete, abort.
func step(r *http.Request) string {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && query.Has("uploads"):
		return "begin"
	case r.Method == http.MethodPost:
		return "complete"
	case r.Method == http.MethodPut && query.Has("partNumber"):
		return "part"
	case r.Method == http.MethodPut:
		return "put"
	case r.Method == http.MethodDelete:
		return "abort"
	}
	return r.Method
}

func answer(w http.ResponseWriter, r *http.Request, _ int64) {
	switch step(r) {
	case "begin":
		fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>`)
	case "part", "put":
		w.Header().Set("ETag", `"e"`)
	case "complete":
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
	case "abort":
		w.WriteHeader(http.StatusNoContent)
	}
}

func TestTransfers(t *testing.T) {
	environment(t)
	storetest.RunTransfers(t, storetest.Transfers{
		URL:    at,
		Answer: answer,
		Makes:  func(r *http.Request) bool { return step(r) == "put" || step(r) == "complete" },
		Cleans: func(r *http.Request) bool { return step(r) == "abort" },
	})
}

// recorder is a server that records the steps, and the bytes of all parts.
type recorder struct {
	mu       sync.Mutex
	steps    []string
	body     bytes.Buffer
	checksum []string // algorithm that each begin announces, and each put and part
}

func (rec *recorder) serve(t *testing.T, tls bool, answer func(http.ResponseWriter, *http.Request, int64)) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		body, err := io.ReadAll(r.Body)
		rec.mu.Lock()
		name := step(r)
		if condition := r.Header.Get("If-None-Match"); condition != "" {
			name += " if-none-match " + condition
		}
		if err != nil {
			name += " broken off"
		}
		rec.steps = append(rec.steps, name)
		if step(r) == "part" {
			rec.body.Write(body)
		}
		switch step(r) {
		case "begin":
			rec.checksum = append(rec.checksum, r.Header.Get("X-Amz-Checksum-Algorithm"))
		case "part", "put":
			rec.checksum = append(rec.checksum, r.Header.Get("X-Amz-Sdk-Checksum-Algorithm"))
		}
		rec.mu.Unlock()
		answer(w, r, 0)
	}))
	if tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func (rec *recorder) want(t *testing.T, steps ...string) {
	t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if fmt.Sprint(rec.steps) != fmt.Sprint(steps) {
		t.Errorf("steps %q, want %q", rec.steps, steps)
	}
}

func openAt(t *testing.T, url string) store.Streamer {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(store.Streamer)
}

// TestConditionIsOfTheLastRequest: in a multipart upload the completion makes the object,
// so it must have If-None-Match.
func TestConditionIsOfTheLastRequest(t *testing.T) {
	environment(t)
	rec := &recorder{}
	s := openAt(t, at(rec.serve(t, false, answer).Listener.Addr().String()))
	for _, size := range []int64{100, 9 << 20} {
		if err := s.CreateFrom(t.Context(), "k", &storetest.Body{Size: size}, size, ""); err != nil {
			t.Fatal(err)
		}
		if err := s.PutFrom(t.Context(), "k", &storetest.Body{Size: size}, size, ""); err != nil {
			t.Fatal(err)
		}
	}
	rec.want(t, "put if-none-match *", "put", "begin", "part", "part", "complete if-none-match *", "begin", "part", "part", "complete")
}

// TestLostAtTheEnd: the parts of an upload that has lost are removed. (TestTransfers shows
// that they also are when its context has ended.)
func TestLostAtTheEnd(t *testing.T) {
	environment(t)
	for code, status := range map[string]int{"PreconditionFailed": 412, "ConditionalRequestConflict": 409, "NoSuchUpload": 404} {
		rec := &recorder{}
		server := rec.serve(t, false, func(w http.ResponseWriter, r *http.Request, n int64) {
			if step(r) != "complete" {
				answer(w, r, n)
				return
			}
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			fmt.Fprint(w, reply(code))
		})
		s := openAt(t, at(server.Listener.Addr().String()))
		err := s.CreateFrom(t.Context(), "k", &storetest.Body{Size: 9 << 20}, 9<<20, "")
		var e *store.Error
		if !errors.As(err, &e) || errors.Is(err, store.ErrExists) != (status == 412) || e.Class != core.ClassOther && status != 412 {
			t.Errorf("%s: %v", code, err)
		}
		rec.want(t, "begin", "part", "part", "complete if-none-match *", "abort")
	}
}

// TestAnnouncedChecksums: each PUT announces the checksum of its body, and an upload that of
// its parts. Servers (versitygw, AWS) refuse parts with a checksum if none was announced, and
// the other way round; a bucket with a default retention refuses a body without one.
func TestAnnouncedChecksums(t *testing.T) {
	environment(t)
	rec := &recorder{}
	url := at(rec.serve(t, false, answer).Listener.Addr().String())
	for parameter, want := range map[string]string{"": "CRC32", "&request_checksum_calculation=when_required": "", "&request_checksum_calculation=when_supported": "CRC32"} {
		rec.checksum = nil
		s := openAt(t, url+parameter)
		record := s.(store.Store)
		for _, err := range []error{
			record.Put(t.Context(), "k", []byte("{}"), ""),
			record.Create(t.Context(), "k", []byte("{}"), ""),
			s.CreateFrom(t.Context(), "k", &storetest.Body{Size: 9}, 9, ""),
			s.PutFrom(t.Context(), "k", &storetest.Body{Size: 9 << 20}, 9<<20, ""), // begin and two parts
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if want := slices.Repeat([]string{want}, 6); !slices.Equal(rec.checksum, want) {
			t.Errorf("%s: announced %q, want %q", parameter, rec.checksum, want)
		}
	}
}

// TestPartsThatAreNotHeld: parts above the bound go straight from the body to the wire.
func TestPartsThatAreNotHeld(t *testing.T) {
	environment(t)
	const size = 3<<20 + 5
	for name, c := range map[string]struct {
		size  int64 // of the body; size was announced
		fails bool
	}{"whole": {size, false}, "short": {size - 1, true}, "long": {size + 1, true}} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{}
			server := rec.serve(t, true, answer)
			s := streamed1MiB(server)
			err := s.CreateFrom(t.Context(), "k", &storetest.Body{Size: c.size, Seed: 3}, size, "")
			if c.fails {
				if !errors.Is(err, store.ErrBody) {
					t.Fatal(err)
				}
				rec.mu.Lock()
				defer rec.mu.Unlock()
				// The server may see that a part broke off after it has answered the abort.
				if !slices.Contains(rec.steps, "abort") || slices.Contains(rec.steps, "complete if-none-match *") {
					t.Fatalf("steps %q", rec.steps)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			rec.want(t, "begin", "part", "part", "part", "part", "complete if-none-match *")
			// The body comes in chunks, with a checksum behind each part.
			if got := rec.body.Len(); got < size || got > size+4096 {
				t.Errorf("%d bytes", got)
			}
			want := make([]byte, 1000)
			_, _ = io.ReadFull(&storetest.Body{Size: size, Seed: 3}, want)
			if !bytes.Contains(rec.body.Bytes(), want) {
				t.Error("the body is another")
			}
		})
	}
}

func client(server *httptest.Server) *sdk.Client {
	endpoint := server.URL
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, HTTPClient: server.Client(),
		RequestChecksumCalculation: 1, // when supported
	}, once)
}

// streamed1MiB returns a store whose uploader holds no part in memory.
func streamed1MiB(server *httptest.Server) *cloud.Store {
	up := newUploader(client(server), "bucket", server.URL, &s3blob.Options{})
	up.hold, up.partSize = 0, func(int64) int64 { return 1 << 20 }
	return cloud.New(memblob.OpenBucket(nil), &cloud.Options{MaxSize: up.maxSize(), Upload: up.upload})
}

func TestPartSizes(t *testing.T) {
	for size, want := range map[int64]int64{
		-1: 16 << 20, 0: 8 << 20, 80_000 << 20: 8 << 20, 80_000<<20 + 1: 16 << 20, 160_000 << 20: 16 << 20, 160_000<<20 + 1: 17 << 20, 5 << 40: 525 << 20,
	} {
		got := partSize(size)
		if got != want || size > 0 && got*maxParts < size {
			t.Errorf("%d: parts of %d", size, got)
		}
	}
	environment(t)
	for url, want := range map[string]int64{
		"s3://b?region=us-east-1":                              5 << 40,
		"s3://b?region=us-east-1&endpoint=https://127.0.0.1:1": 5 << 40,
		"s3://b?region=us-east-1&endpoint=http://127.0.0.1:1":  160_000 << 20,
		"s3://b?region=us-east-1&disable_https=true":           160_000 << 20,
	} {
		if got := openAt(t, url).MaxSize(); got != want {
			t.Errorf("%s: %d", url, got)
		}
	}
}

// TestTooManyParts: a body of unknown size that needs too many parts is refused.
func TestTooManyParts(t *testing.T) {
	rec := &recorder{}
	server := rec.serve(t, false, answer)
	up := newUploader(client(server), "bucket", server.URL, &s3blob.Options{})
	up.partSize, up.most = func(int64) int64 { return 1 }, 3
	s := cloud.New(memblob.OpenBucket(nil), &cloud.Options{Upload: up.upload})
	if err := s.PutFrom(t.Context(), "k", &storetest.Body{Size: 4}, -1, ""); !errors.Is(err, store.ErrTooLarge) {
		t.Fatal(err)
	}
	rec.want(t, "begin", "part", "part", "part", "abort")
}
