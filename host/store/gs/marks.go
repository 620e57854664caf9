package gs

import (
	"net/http"
	"strings"

	"github.com/mopslock/mopslock/host/store/cloud"
)

// hasID reports whether an answer has a header that GCS itself sends with each answer, or
// one of an object, which emulators send as well.
func hasID(answer *http.Response) bool {
	for _, name := range []string{"X-Guploader-Uploadid", "X-Goog-Generation", "X-Goog-Hash"} {
		if answer.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// document is what is looked at in an answer of the JSON API.
type document struct {
	Kind   string
	Name   string
	Bucket string
	Items  []struct{ Bucket string }
	Error  *struct{ Code int }
}

// marks returns the check of a bucket's answers. Reads of objects go to the XML API, all
// other requests to the JSON API.
func marks(bucket string) cloud.Check {
	return func(r *http.Request, answer *http.Response) (missing string, err error) {
		query := r.URL.Query()
		switch {
		case answer.StatusCode >= 300 || answer.StatusCode == http.StatusNoContent:
			return ended(r, answer)
		case r.Method == http.MethodDelete:
			return deleted(answer)
		case r.Method == http.MethodGet && query.Get("alt") != "json":
			if !hasID(answer) {
				missing = "X-Goog-Generation"
			}
			return missing, nil
		case query.Get("uploadType") == "resumable" && !query.Has("upload_id"): // an upload begins
			if answer.Header.Get("Location") == "" {
				missing = "the address of an upload"
			}
			return missing, nil
		case answer.Header.Get("X-Http-Status-Code-Override") == "308": // a chunk that is not the last one
			return "", nil
		}
		body, err := cloud.Document(answer)
		if err != nil {
			return "", err
		}
		var d document
		isList := r.Method == http.MethodGet && strings.HasSuffix(r.URL.EscapedPath(), "/o")
		switch whole := cloud.ReadJSON(body, &d) && d.Error == nil; {
		case isList && (!whole || d.Kind != "storage#objects"):
			return `a whole "storage#objects"`, nil
		case !isList && (!whole || d.Kind != "storage#object" || d.Name == "" || d.Bucket != bucket):
			return `a whole "storage#object" of our bucket`, nil
		}
		for _, item := range d.Items {
			if item.Bucket != bucket {
				return "the name of our bucket", nil
			}
		}
		return "", nil
	}
}

// ended looks at a refusal, and at an answer without a body.
func ended(r *http.Request, answer *http.Response) (missing string, err error) {
	switch {
	case hasID(answer), answer.StatusCode == http.StatusNoContent && r.Method == http.MethodDelete:
		return "", nil
	}
	body, err := cloud.Document(answer)
	var d document
	if err != nil || cloud.IsXMLError(body) || cloud.ReadJSON(body, &d) && d.Error != nil && d.Error.Code != 0 {
		return "", err
	}
	return "X-Guploader-Uploadid or an error of GCS", nil
}

// deleted: GCS answers 204, an emulator 200 and null.
func deleted(answer *http.Response) (missing string, err error) {
	body, err := cloud.Document(answer)
	if err == nil && !hasID(answer) && strings.TrimSpace(string(body)) != "null" {
		missing = "GCS' 204"
	}
	return missing, err
}
