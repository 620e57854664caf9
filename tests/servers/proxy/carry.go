package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxBody bounds, in bytes, what is held of a request or an answer.
const maxBody = 64 << 20

// request is one that the proxy has.
type request struct {
	*http.Request

	op      Op
	key     string
	content []byte
	gone    func() // counts it as no longer under way, once
}

// answer is what the server said, whole.
type answer struct {
	*http.Response

	content []byte
}

// handle carries one request, with its fault.
func (p *Proxy) handle(w http.ResponseWriter, from *http.Request) {
	if !p.begin() {
		cut(w, nil)
		return
	}
	defer p.serving.Done()
	content, err := io.ReadAll(http.MaxBytesReader(w, from.Body, maxBody))
	if err != nil { // the client went away, or sends too much
		cut(w, nil)
		return
	}
	if isPortal(from) {
		_, _ = io.WriteString(w, page)
		return
	}
	op, key := p.speech.what(from, content)
	fault, delay := p.enter(op, key)
	r := &request{Request: from, op: op, key: key, content: content, gone: sync.OnceFunc(p.leave)}
	defer r.gone()
	defer context.AfterFunc(from.Context(), r.gone)() // the client has given up
	if fault.isLie() {
		p.lie(w, r, fault)
		return
	}
	switch fault {
	case CutBefore:
		r.cut(w, nil)
	case CutRequest:
		p.sendHalf(r)
		r.cut(w, nil)
	case Conflict, Throttled, Broken:
		p.refuse(w, r, map[Fault]int{Conflict: conflict, Throttled: throttled, Broken: broken}[fault])
	case Busy:
		w.Header().Set("Retry-After", strconv.Itoa(int(RetryAfter.Seconds())))
		p.refuse(w, r, busy)
	case Delay:
		p.sendLate(w, r, delay)
	default:
		p.sendNow(w, r, fault)
	}
}

// sendNow sends a request on at once, and applies the fault to its answer.
func (p *Proxy) sendNow(w http.ResponseWriter, r *request, fault Fault) {
	a, err := p.send(r.Context(), r)
	if err == nil && fault == Duplicated {
		a, err = p.send(r.Context(), r)
	}
	switch {
	case err != nil, fault == CutAfter: // a server that is not there answers nothing
		r.cut(w, nil)
	case fault == CutAnswer:
		r.cut(w, half(a))
	case fault == OwnSuccess && r.op.writes() && a.StatusCode < 300:
		p.refuse(w, r, ownMatch)
	case fault == Truncated && r.Method != http.MethodHead:
		a.content = a.content[:len(a.content)/2]
		r.answer(w, a)
	default:
		r.answer(w, a)
	}
}

// sendLate keeps a request for a while. Its client may have gone when it is sent on.
func (p *Proxy) sendLate(w http.ResponseWriter, r *request, delay time.Duration) {
	life := r.Context().Value(lifeKey{}).(context.Context)
	select {
	case <-time.After(delay):
	case <-life.Done():
	}
	a, err := p.send(life, r)
	if err != nil {
		r.cut(w, nil)
		return
	}
	r.answer(w, a)
}

// onwards is the request as the server gets it.
func (p *Proxy) onwards(ctx context.Context, r *request) *http.Request {
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = "http", p.target
	if p.speech.ownHost {
		out.Host = p.target
	}
	out.Header.Del("Connection")
	if _, said := out.Header["User-Agent"]; !said {
		out.Header["User-Agent"] = nil // or one is added
	}
	out.TransferEncoding, out.Trailer = nil, nil
	out.ContentLength = int64(len(r.content))
	out.Body, out.GetBody = http.NoBody, nil
	if len(r.content) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(r.content))
	}
	return out
}

func (p *Proxy) send(ctx context.Context, r *request) (*answer, error) {
	response, err := p.onward.RoundTrip(p.onwards(ctx, r))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return nil, err
	}
	// GCS says here where to send the next part of an upload: it must come by the proxy.
	if to := response.Header.Get("Location"); to != "" {
		response.Header.Set("Location", strings.ReplaceAll(to, "//"+p.target+"/", "//"+p.address+"/"))
	}
	if response.StatusCode == http.StatusOK && r.Method == http.MethodGet {
		p.remember(r.key, content)
	}
	return &answer{response, content}, nil
}

// sendHalf sends half of a request. It does not use the transport, which may send
// nothing at all of a body that fails.
func (p *Proxy) sendHalf(r *request) {
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", p.target)
	if err != nil {
		return
	}
	defer conn.Close()
	var whole bytes.Buffer
	if p.onwards(r.Context(), r).Write(&whole) == nil {
		_, _ = conn.Write(whole.Bytes()[:middle(whole.Bytes(), len(r.content))])
	}
}

// middle is where a message is broken off: in its body, or in its head.
func middle(message []byte, body int) int {
	if body == 0 {
		return len(message) / 2
	}
	return len(message) - (body+1)/2
}

// half is the first half of an answer.
func half(a *answer) []byte {
	a.Body = io.NopCloser(bytes.NewReader(a.content))
	if a.Request.Method != http.MethodHead {
		a.ContentLength = int64(len(a.content))
	}
	a.TransferEncoding = nil
	var whole bytes.Buffer
	if a.Write(&whole) != nil {
		return nil
	}
	return whole.Bytes()[:middle(whole.Bytes(), len(a.content))]
}

// answer passes an answer on.
func (r *request) answer(w http.ResponseWriter, a *answer) {
	header := w.Header()
	for name, values := range a.Header {
		header[name] = values
	}
	header.Del("Connection")
	header.Del("Transfer-Encoding")
	if _, said := header["Content-Type"]; !said {
		header["Content-Type"] = nil // or one is guessed
	}
	if r.Method != http.MethodHead { // an answer to HEAD keeps the object's
		header.Set("Content-Length", strconv.Itoa(len(a.content)))
	}
	if a.StatusCode == http.StatusNoContent || a.StatusCode == http.StatusNotModified {
		header.Del("Content-Length")
	}
	r.gone() // before the client can know
	w.WriteHeader(a.StatusCode)
	_, _ = w.Write(a.content)
}

// refuse answers in the server's place.
func (p *Proxy) refuse(w http.ResponseWriter, r *request, status int) {
	body := p.speech.refusal(status, w.Header())
	r.gone()
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body)
	}
}

func (r *request) cut(w http.ResponseWriter, last []byte) {
	r.gone()
	cut(w, last)
}

// cut closes the connection, after some last bytes.
func cut(w http.ResponseWriter, last []byte) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the HTTP server then closes the connection
	}
	_, _ = conn.Write(last)
	_ = conn.Close()
}
