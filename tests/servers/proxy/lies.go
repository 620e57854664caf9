package proxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// The wrong answers: what portals, load balancers, caches and broken gateways say in the
// server's place. Each is neither a true answer nor a missing one. Nothing is sent on,
// except with Sent, and for Blank and Swapped, which need an answer to spoil.
const (
	Nothing200 Fault = firstLie + iota
	Page200
	Error200
	OtherPrefix
	OtherBucket
	Blank
	Swapped
	Gzip200
	Garbage200
	Nothing204
	Moved301
	Found302
	Redirect307
	Page403
	Page404
	Nothing404
	Page409
	Page412
	Page429
	Page502
	endOfLies
)

// Sent is added to a wrong answer: the server gets the request, and its own answer is dropped.
const Sent Fault = 0x80

const firstLie Fault = 0x20

// lies has the name of each wrong answer, its status, and what a client must conclude. A yes
// or a no that does not have the service's own mark is unknown: the server may have got the
// request, or not.
var lies = [endOfLies - firstLie]struct {
	name   string
	status int
	means  string
}{
	{"Nothing200", 200, "unknown: no list is empty, nothing is stored or there, since nothing says so"},
	{"Page200", 200, "unknown: a web page is no list, no object, and no receipt"},
	{"Error200", 200, "unknown: the service's own document, which says that it failed"},
	{"OtherPrefix", 200, "unknown: a true list of another prefix says nothing of this one"},
	{"OtherBucket", 200, "unknown: a true list of another bucket says nothing of this one"},
	{"Blank", 0, "unknown: the right head and length, but from the middle on the body is zeros"},
	{"Swapped", 0, "unknown: the right head, and the body of another object"},
	{"Gzip200", 200, "unknown: a web page that is labelled as compressed, and is not"},
	{"Garbage200", 200, "unknown: chunks that are none; the head has said 200"},
	{"Nothing204", 204, "unknown: a portal's probe gets this; no verb but delete is answered so"},
	{"Moved301", 301, "unknown: no bucket has moved to a web page"},
	{"Found302", 302, "unknown: neither this nor the page that it leads to"},
	{"Redirect307", 307, "unknown: nor may the request be made again there"},
	{"Page403", 403, "unknown: a portal forbids, and not the service"},
	{"Page404", 404, "unknown, and never absent"},
	{"Nothing404", 404, "unknown, and never absent, also for a request that has no body in its answer"},
	{"Page409", 409, "unknown, and never exists"},
	{"Page412", 412, "unknown, and never exists"},
	{"Page429", 429, "unknown: later"},
	{"Page502", 502, "unknown: the request may have come through"},
}

// Lies are all wrong answers, without Sent.
func Lies() (all []Fault) {
	for f := firstLie; f < endOfLies; f++ {
		all = append(all, f)
	}
	return all
}

// Means is what a client must conclude from a wrong answer, in words.
func (f Fault) Means() string { return lies[f&^Sent-firstLie].means }

func (f Fault) isLie() bool { return f >= firstLie }

func (f Fault) lieName() string {
	name := lies[f&^Sent-firstLie].name
	if f&Sent != 0 {
		name += " after"
	}
	return name
}

// Liar is chance: it answers so many of a hundred requests wrongly. All wrong answers are
// equally likely, and half of them come after the server has got the request. A request's
// answer depends on seed and on its N alone.
func Liar(seed uint64, percent int) func(*Request) Fault {
	all := Lies()
	return func(r *Request) Fault {
		chance := rand.New(rand.NewPCG(seed, uint64(r.N)))
		if chance.IntN(100) >= percent {
			return None
		}
		return all[chance.IntN(len(all))] | Sent*Fault(chance.IntN(2))
	}
}

// portal is the path of the page to which redirects lead, and page the page.
const (
	portal = "/.portal/"
	page   = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><p>Please sign in to use this network.</p></body></html>\n"
)

func isPortal(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, portal) }

// lie answers a request wrongly.
func (p *Proxy) lie(w http.ResponseWriter, r *request, fault Fault) {
	kind, truth := fault&^Sent, (*answer)(nil)
	if fault&Sent != 0 || kind == Blank || kind == Swapped {
		var err error
		if truth, err = p.send(r.Context(), r); err != nil {
			r.cut(w, nil)
			return
		}
	}
	switch kind {
	case Blank, Swapped:
		truth.content = spoil(kind, truth.content, p.another(r))
		r.answer(w, truth)
		return
	case Garbage200:
		r.cut(w, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"+page))
		return
	}
	p.page(w, r, kind)
}

func spoil(kind Fault, content, other []byte) []byte {
	if kind == Swapped {
		return other
	}
	half := len(content) / 2
	return append(append([]byte{}, content[:half]...), make([]byte, len(content)-half)...)
}

// page answers by a lie that needs no answer of the server.
func (p *Proxy) page(w http.ResponseWriter, r *request, kind Fault) {
	header, body := w.Header(), page
	header.Set("Content-Type", "text/html; charset=utf-8")
	switch kind {
	case Nothing200, Nothing204, Nothing404:
		body = ""
		header["Content-Type"] = nil // or one is guessed
	case Error200:
		body = p.speech.refusal(broken, header)
	case OtherPrefix:
		body = p.speech.list(r.Request, "", header)
	case OtherBucket:
		body = p.speech.list(r.Request, "another", header)
	case Gzip200:
		header.Set("Content-Encoding", "gzip")
	case Moved301, Found302, Redirect307:
		header.Set("Location", "http://"+p.address+portal)
	}
	status := lies[kind-firstLie].status
	if status != http.StatusNoContent {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	r.gone()
	w.WriteHeader(status)
	if r.Method != http.MethodHead && status != http.StatusNoContent {
		_, _ = io.WriteString(w, body)
	}
}

// remember keeps a body for Swapped.
func (p *Proxy) remember(key string, content []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(content) > 0 && key != p.seen[0].key {
		p.seen[1] = p.seen[0]
	}
	if len(content) > 0 {
		p.seen[0] = seen{key, content}
	}
}

// seen is a body that the server has sent.
type seen struct {
	key     string
	content []byte
}

// another returns the body of another object than a request's own, or a page if none was read yet.
func (p *Proxy) another(r *request) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if s.key != "" && s.key != r.key {
			return s.content
		}
	}
	return []byte(page)
}

// The true lists that wrong answers show have one object, below no prefix that is asked for.
const (
	otherPrefix = "some-other-prefix/"
	otherKey    = otherPrefix + "object"
	otherStamp  = "2026-01-02T03:04:05.000Z"
)

func listS3(r *http.Request, bucket string, header http.Header) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	prefix, key := r.URL.Query().Get("prefix"), otherKey
	if bucket == "" {
		bucket, prefix = path, otherPrefix
	} else {
		key = prefix + "object"
	}
	header.Set("Content-Type", "application/xml")
	header.Set("X-Amz-Request-Id", "0")
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>%s</Name><Prefix>%s</Prefix><KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys>`+
		`<IsTruncated>false</IsTruncated><Contents><Key>%s</Key><LastModified>%s</LastModified><ETag>"0"</ETag><Size>2</Size></Contents></ListBucketResult>`,
		bucket, prefix, key, otherStamp)
}

func listGCS(r *http.Request, bucket string, header http.Header) string {
	below, _ := strings.CutPrefix(r.URL.Path, "/storage/v1/b/")
	path, _, _ := strings.Cut(below, "/")
	key := otherKey
	if bucket == "" {
		bucket = path
	} else {
		key = r.URL.Query().Get("prefix") + "object"
	}
	header.Set("Content-Type", "application/json; charset=UTF-8")
	return fmt.Sprintf(`{"kind":"storage#objects","items":[{"kind":"storage#object","bucket":%q,"name":%q,"size":"2","updated":%q,"generation":"1"}]}`,
		bucket, key, otherStamp)
}

func listAzure(r *http.Request, bucket string, header http.Header) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	path, _, _ = strings.Cut(path, "/")
	prefix, key := r.URL.Query().Get("prefix"), otherKey
	if bucket == "" {
		bucket, prefix = path, otherPrefix
	} else {
		key = prefix + "object"
	}
	header.Set("Content-Type", "application/xml")
	header.Set("X-Ms-Request-Id", "0")
	return fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?>`+"\n"+
		`<EnumerationResults ServiceEndpoint="http://%s/" ContainerName="%s"><Prefix>%s</Prefix><Blobs><Blob><Name>%s</Name><Properties>`+
		`<Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0</Etag><Content-Length>2</Content-Length><BlobType>BlockBlob</BlobType>`+
		`</Properties></Blob></Blobs><NextMarker /></EnumerationResults>`,
		r.Host, bucket, prefix, key)
}
