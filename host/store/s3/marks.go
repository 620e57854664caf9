package s3

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/host/store/cloud"
)

// The marks of S3. All servers of its protocol send them, though not all send a request id.
const (
	requestID = "X-Amz-Request-Id"
	hostID    = "X-Amz-Id-2"
)

func hasID(answer *http.Response) bool {
	return answer.Header.Get(requestID) != "" || answer.Header.Get(hostID) != ""
}

// marks returns the check of a bucket's answers.
func marks(bucket string) cloud.Check {
	return func(r *http.Request, answer *http.Response) (missing string, err error) {
		query := r.URL.Query()
		switch {
		case answer.StatusCode >= 300:
			return refused(r, answer)
		case r.Method == http.MethodGet && query.Has("list-type"):
			return listed(bucket, query, answer)
		case r.Method == http.MethodPost && query.Has("uploads"):
			return begun(answer)
		case r.Method == http.MethodPost && query.Has("uploadId"):
			return completed(answer)
		case r.Method == http.MethodDelete:
			if answer.StatusCode != http.StatusNoContent { // which not every server marks
				missing = "S3's 204"
			}
			return missing, nil
		case r.Method == http.MethodGet && query.Has("session"): // of a directory bucket
			return id(answer), nil
		case r.Method == http.MethodPut, r.Method == http.MethodGet, r.Method == http.MethodHead:
			if answer.Header.Get("ETag") == "" {
				return "an ETag", nil
			}
			if cloud.IsPage(answer) { // a web server's own pages have ETags, too
				return id(answer), nil
			}
			return "", nil
		}
		return id(answer), nil
	}
}

func id(answer *http.Response) (missing string) {
	if !hasID(answer) {
		return requestID
	}
	return ""
}

// refused looks at an answer that is no success. One to a HEAD has no body, so only the id
// tells; cloud asks again by a GET.
func refused(r *http.Request, answer *http.Response) (missing string, err error) {
	if hasID(answer) {
		return "", nil
	}
	if r.Method == http.MethodHead {
		return requestID, nil
	}
	body, err := cloud.Document(answer)
	if err != nil || cloud.IsXMLError(body) {
		return "", err
	}
	return requestID + " or S3's error code", nil
}

// listed demands the list of the bucket and the prefix that were asked for.
func listed(bucket string, query url.Values, answer *http.Response) (missing string, err error) {
	var list struct {
		XMLName      xml.Name `xml:"ListBucketResult"`
		Name         string
		Prefix       string
		EncodingType string
	}
	body, err := cloud.Document(answer)
	switch {
	case err != nil:
		return "", err
	case !cloud.ReadXML(body, &list):
		return "a whole ListBucketResult", nil
	case list.Name == "", list.Name != bucket && !isAlias(bucket):
		return "the name of our bucket", nil
	}
	if list.EncodingType == "url" {
		list.Prefix, err = url.QueryUnescape(list.Prefix)
	}
	if err != nil || list.Prefix != query.Get("prefix") {
		return "the prefix that was asked for", nil
	}
	return "", nil
}

// isAlias reports whether a bucket's lists may have another name than it: it is an access
// point, or its alias. No bucket's name may end as an alias does: those of access points, of
// Object Lambda, of Outposts and of directory buckets.
func isAlias(bucket string) bool {
	return strings.Contains(bucket, ":") || slices.ContainsFunc([]string{"-s3alias", "--ol-s3", "--op-s3", "--xa-s3"}, func(end string) bool {
		return strings.HasSuffix(bucket, end)
	})
}

func begun(answer *http.Response) (missing string, err error) {
	var upload struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		UploadID string   `xml:"UploadId"`
	}
	body, err := cloud.Document(answer)
	if err == nil && (!cloud.ReadXML(body, &upload) || upload.UploadID == "") {
		missing = "the id of an upload"
	}
	return missing, err
}

// completed also passes on an <Error> under a 200: S3 begins to answer before the upload is
// complete, and the SDK knows that.
func completed(answer *http.Response) (missing string, err error) {
	var object struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		ETag    string
	}
	body, err := cloud.Document(answer)
	if err == nil && !cloud.IsXMLError(body) && (!cloud.ReadXML(body, &object) || object.ETag == "") {
		missing = "the ETag of a completed upload"
	}
	return missing, err
}
