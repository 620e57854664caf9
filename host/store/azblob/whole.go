package azblob

import (
	"bytes"
	"crypto/md5" //nolint:gosec // Azure's own sum, against accidents
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"net/http"
)

// whole checks bodies against the sum that Azure keeps of a blob that was put in one
// request, as all records are. Otherwise a body that a middlebox cut short, with a length
// to match, would be taken for the blob. The SDKs of S3 and GCS check this themselves. A
// blob of several blocks has no sum; for it only the length is checked.
type whole struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w whole) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := w.RoundTripper.RoundTrip(request)
	if err != nil || request.Method != http.MethodGet || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	if sum, err := base64.StdEncoding.DecodeString(answer.Header.Get("Content-MD5")); err == nil && len(sum) == md5.Size {
		answer.Body = &summed{ReadCloser: answer.Body, sum: md5.New(), want: sum} //nolint:gosec // as above
	}
	return answer, nil
}

// summed ends with io.ErrUnexpectedEOF if the body does not have the sum.
type summed struct {
	io.ReadCloser
	sum  hash.Hash
	want []byte
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.sum.Write(p[:n]) // never fails
	if errors.Is(err, io.EOF) && !bytes.Equal(s.sum.Sum(nil), s.want) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
