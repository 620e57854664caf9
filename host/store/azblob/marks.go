package azblob

import (
	"encoding/xml"
	"net/http"
	"strings"

	"github.com/mopslock/mopslock/host/store/cloud"
)

// marks returns the check of a container's answers. Each answer of Azure has an id, and
// each refusal a code.
func marks(container string) cloud.Check {
	return func(r *http.Request, answer *http.Response) (missing string, err error) {
		const requestID, errorCode = "X-Ms-Request-Id", "X-Ms-Error-Code"
		query := r.URL.Query()
		switch {
		case answer.Header.Get(requestID) == "" && (answer.StatusCode < 300 || answer.Header.Get(errorCode) == ""):
			return requestID, nil
		case answer.StatusCode >= 300:
			return "", nil
		case r.Method == http.MethodGet && query.Get("comp") == "list":
			return listed(container, query.Get("prefix"), answer)
		case r.Method == http.MethodPut && answer.StatusCode != http.StatusCreated:
			return "Azure's 201", nil
		case r.Method == http.MethodDelete && answer.StatusCode != http.StatusAccepted:
			return "Azure's 202", nil
		case r.Method != http.MethodDelete && query.Get("comp") != "block" && answer.Header.Get("ETag") == "":
			return "an ETag", nil
		}
		return "", nil
	}
}

// listed demands the list of the container and the prefix that were asked for.
func listed(container, prefix string, answer *http.Response) (missing string, err error) {
	var list struct {
		XMLName   xml.Name `xml:"EnumerationResults"`
		Container string   `xml:"ContainerName,attr"`
		Prefix    string
	}
	body, err := cloud.Document(answer)
	switch {
	case err != nil:
		return "", err
	case !cloud.ReadXML(body, &list):
		return "a whole EnumerationResults", nil
	case list.Container != container && !strings.HasSuffix(list.Container, "/"+container):
		return "the name of our container", nil
	case list.Prefix != prefix:
		return "the prefix that was asked for", nil
	}
	return "", nil
}
