package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a server that notes what it has applied, behind a proxy, and one client.
type world struct {
	proxy  *Proxy
	client *http.Client

	mu      sync.Mutex
	applied []string // method and body, of requests that came whole
}

func newWorld(t *testing.T) *world {
	w := &world{}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.applied = append(w.applied, r.Method+" "+r.Host+" "+string(body))
		out.Header().Set("Content-Type", "text/plain")
		if r.Method == http.MethodHead {
			out.Header().Set("Content-Length", "10")
			return
		}
		_, _ = io.WriteString(out, "0123456789")
	}))
	t.Cleanup(server.Close)
	var err error
	if w.proxy, err = New("s3", server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.proxy.Close() })
	w.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return w
}

// ask returns status, body and error of a PUT with a body, or of another without.
func (w *world) ask(method, path string) (int, string, error) {
	var body io.Reader
	if method == http.MethodPut {
		body = strings.NewReader("abcdefgh")
	}
	request, err := http.NewRequest(method, "http://"+w.proxy.Address()+path, body)
	if err != nil {
		return 0, "", err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

func (w *world) times(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, one := range w.applied {
		if strings.HasPrefix(one, method+" ") {
			n++
		}
	}
	return n
}

// TestFaults: of each fault, what the client is told and what the server has applied.
func TestFaults(t *testing.T) {
	const whole = "0123456789"
	for _, c := range []struct {
		fault   Fault
		method  string
		status  int // 0: no answer
		body    string
		broken  bool // the body ends early
		applied int
	}{
		{None, "PUT", 200, whole, false, 1},
		{None, "HEAD", 200, "", false, 1},
		{Delay, "PUT", 200, whole, false, 1},
		{CutBefore, "PUT", 0, "", false, 0},
		{CutRequest, "PUT", 0, "", false, 0},
		{CutRequest, "GET", 0, "", false, 0},
		{CutAfter, "PUT", 0, "", false, 1},
		{CutAfter, "GET", 0, "", false, 1},
		{CutAnswer, "PUT", 200, "01234", true, 1},
		{CutAnswer, "HEAD", 0, "", false, 1},
		{Conflict, "PUT", 409, "ConditionalRequestConflict", false, 0},
		{OwnSuccess, "PUT", 412, "PreconditionFailed", false, 1},
		{OwnSuccess, "GET", 200, whole, false, 1},
		{OwnSuccess, "DELETE", 200, whole, false, 1},
		{Throttled, "PUT", 429, "TooManyRequests", false, 0},
		{Broken, "GET", 500, "InternalError", false, 0},
		{Broken, "HEAD", 500, "", false, 0},
		{Busy, "GET", 503, "SlowDown", false, 0},
		{Truncated, "GET", 200, "01234", false, 1},
		{Truncated, "HEAD", 200, "", false, 1},
		{Duplicated, "PUT", 200, whole, false, 2},
	} {
		t.Run(c.fault.String()+"_"+c.method, func(t *testing.T) {
			w := newWorld(t)
			w.proxy.Choose(func(*Request) Fault { return c.fault })
			status, body, err := w.ask(c.method, "/leases/a/b")
			if status != c.status || (err != nil) != (c.status == 0 || c.broken) {
				t.Errorf("status %d, %v; want %d", status, err, c.status)
			}
			if refused := c.status >= 400; body != c.body && (!refused || c.method != "HEAD" && !strings.Contains(body, "<Code>"+c.body+"</Code>")) {
				t.Errorf("body %q, want %q", body, c.body)
			}
			if err := w.proxy.Close(); err != nil { // whatever was sent on has been dealt with
				t.Error(err)
			}
			if n := w.times(c.method); n != c.applied {
				t.Errorf("applied %d times, want %d", n, c.applied)
			}
			if n := w.proxy.Counts().Faults[c.fault]; (c.fault != None) != (n == 1) {
				t.Errorf("counted %d", n)
			}
		})
	}
}

// TestWhat: the verb and the key, as each cloud's SDK asks.
func TestWhat(t *testing.T) {
	form := "--x\r\nContent-Type: application/json\r\n\r\n{\"bucket\":\"leases\",\"name\":\"p/a b\"}\n\r\n--x\r\n\r\nbody\r\n--x--\r\n"
	condition := http.Header{"If-None-Match": {"*"}}
	multipart := http.Header{"Content-Type": {"multipart/related; boundary=x"}}
	for _, c := range []struct {
		kind, method, target string
		header               http.Header
		body                 string
		op                   Op
		key                  string
	}{
		{"s3", "GET", "/leases/p/a%20b?x-id=GetObject", nil, "", Get, "p/a b"},
		{"s3", "HEAD", "/leases/p/k", nil, "", Exists, "p/k"},
		{"s3", "PUT", "/leases/p/k", nil, "x", Put, "p/k"},
		{"s3", "PUT", "/leases/p/k", condition, "x", Create, "p/k"},
		{"s3", "DELETE", "/leases/p/k", nil, "", Delete, "p/k"},
		{"s3", "GET", "/leases?list-type=2&prefix=p%2F", nil, "", List, "p/"},
		{"s3", "POST", "/leases/p/k?uploads=", nil, "", Part, "p/k"},
		{"s3", "DELETE", "/leases/p/k?uploadId=1", nil, "", Part, "p/k"},
		{"s3", "PUT", "/leases", nil, "", Other, ""},
		{"azblob", "GET", "/account/leases/p/a%20b", nil, "", Get, "p/a b"},
		{"azblob", "HEAD", "/account/leases/p/k", nil, "", Exists, "p/k"},
		{"azblob", "PUT", "/account/leases/p/k", nil, "x", Put, "p/k"},
		{"azblob", "PUT", "/account/leases/p/k", condition, "x", Create, "p/k"},
		{"azblob", "DELETE", "/account/leases/p/k", nil, "", Delete, "p/k"},
		{"azblob", "GET", "/account/leases?comp=list&restype=container&prefix=p%2F", nil, "", List, "p/"},
		{"azblob", "PUT", "/account/leases/p/k?comp=block&blockid=1", nil, "x", Part, "p/k"},
		{"azblob", "PUT", "/account/leases?restype=container", nil, "", Other, ""},
		{"gs", "GET", "/leases/p/a%20b", nil, "", Get, "p/a b"},
		{"gs", "GET", "/storage/v1/b/leases/o/p%2Fk?alt=media", nil, "", Get, "p/k"},
		{"gs", "GET", "/storage/v1/b/leases/o/p%2Fk?alt=json", nil, "", Exists, "p/k"},
		{"gs", "DELETE", "/storage/v1/b/leases/o/p%2Fk", nil, "", Delete, "p/k"},
		{"gs", "GET", "/storage/v1/b/leases/o?prefix=p%2F", nil, "", List, "p/"},
		{"gs", "POST", "/upload/storage/v1/b/leases/o?uploadType=multipart", multipart, form, Put, "p/a b"},
		{"gs", "POST", "/upload/storage/v1/b/leases/o?uploadType=multipart&ifGenerationMatch=0", multipart, form, Create, "p/a b"},
		{"gs", "POST", "/upload/storage/v1/b/leases/o?uploadType=resumable&name=k", nil, "{}", Part, "k"},
		{"gs", "PUT", "/upload/resumable/1", nil, "x", Part, ""},
		{"gs", "POST", "/storage/v1/b?project=tests", nil, "{}", Other, ""},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		for name, values := range c.header {
			r.Header[name] = values
		}
		if op, key := speeches[c.kind].what(r, []byte(c.body)); op != c.op || key != c.key {
			t.Errorf("%s %s %s: %s %q, want %s %q", c.kind, c.method, c.target, op, key, c.op, c.key)
		}
	}
}

// TestHost: what S3 and Azure have signed stays as it is; GCS' server is called by
// its own address.
func TestHost(t *testing.T) {
	for kind, own := range map[string]bool{"s3": false, "azblob": false, "gs": true} {
		w := newWorld(t)
		w.proxy.speech = speeches[kind]
		if _, _, err := w.ask("GET", "/leases/k"); err != nil {
			t.Fatal(err)
		}
		want := w.proxy.Address()
		if own {
			want = w.proxy.target
		}
		if got := w.applied[0]; got != "GET "+want+" " {
			t.Errorf("%s: %q, want host %s", kind, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	if _, err := New("ftp", "127.0.0.1:1"); err == nil {
		t.Error("it speaks ftp")
	}
}

// TestDown: nobody is answered, those who wait neither, and afterwards it is as before.
func TestDown(t *testing.T) {
	w := newWorld(t)
	w.proxy.SetDelay(time.Hour)
	came := make(chan bool, 1)
	w.proxy.Choose(func(*Request) Fault {
		came <- true
		return Delay
	})
	failed := make(chan error)
	go func() {
		_, _, err := w.ask("PUT", "/leases/k")
		failed <- err
	}()
	<-came
	address := w.proxy.Address()
	w.proxy.Down()
	if err := <-failed; err == nil {
		t.Error("the delayed request was answered")
	}
	w.proxy.Choose(nil)
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("it takes connections")
	}
	w.proxy.Down() // twice is once
	for range 2 {
		if err := w.proxy.Up(); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, err := w.ask("PUT", "/leases/k"); status != 200 || w.proxy.Address() != address {
		t.Error(status, err)
	}
	if n := w.times("PUT"); n != 1 {
		t.Errorf("%d were applied, want that after Up", n)
	}
	w.proxy.Close()
	if err := w.proxy.Up(); !errors.Is(err, net.ErrClosed) {
		t.Error("up after Close:", err)
	}
}

// TestDelayOutlivesItsSender: a network delivers late what nobody waits for any more.
func TestDelayOutlivesItsSender(t *testing.T) {
	w := newWorld(t)
	w.proxy.SetDelay(50 * time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan bool)
	w.proxy.Choose(func(*Request) Fault { // whose delay begins when nobody waits any more
		leave()
		<-gone
		return Delay
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+w.proxy.Address()+"/leases/k", strings.NewReader("abcdefgh"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := w.client.Do(request)
	close(gone)
	if err == nil {
		answer.Body.Close()
		t.Fatal("it was answered")
	}
	for w.times("PUT") == 0 {
		runtime.Gosched()
	}
}

// TestCounts: by verb; connections, and not requests; the peak, and not the sum.
func TestCounts(t *testing.T) {
	w := newWorld(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	w.client = &http.Client{Transport: transport}
	for range 10 {
		w.ask("GET", "/leases/k")
		w.ask("PUT", "/leases/k")
	}
	c := w.proxy.Counts()
	if c.Ops[Get] != 10 || c.Ops[Put] != 10 || c.Total() != 20 || c.Connections != 1 || c.Peak != 1 {
		t.Errorf("%+v", c)
	}
	w.proxy.Reset()
	w.proxy.Choose(func(r *Request) Fault {
		if r.N != 0 || r.Op != Exists || r.Key != "k" {
			t.Errorf("%+v", r)
		}
		return None
	})
	w.ask("HEAD", "/leases/k")
	if c = w.proxy.Counts(); c.Total() != 1 || c.Connections != 0 || c.Ops[Get] != 0 {
		t.Errorf("after Reset: %+v", c)
	}
	var meet, done sync.WaitGroup
	meet.Add(5)
	w.proxy.Choose(func(*Request) Fault {
		meet.Done()
		meet.Wait()
		return None
	})
	for range 5 {
		done.Go(func() { w.ask("GET", "/leases/k") })
	}
	done.Wait()
	if c = w.proxy.Counts(); c.Peak != 5 {
		t.Errorf("peak %d", c.Peak)
	}
}

// TestWeather: the same seed is the same weather, whoever asks first; one in four
// comes to about a quarter, and each fault comes.
func TestWeather(t *testing.T) {
	const requests = 4000
	tally := func(weather func(*Request) Fault, order func(int) int) []Fault {
		got := make([]Fault, requests)
		for i := range requests {
			n := order(i)
			got[n] = weather(&Request{N: n})
		}
		return got
	}
	forth := tally(Weather(7, 4), func(i int) int { return i })
	back := tally(Weather(7, 4), func(i int) int { return requests - 1 - i })
	if !slices.Equal(forth, back) {
		t.Error("it depends on more than seed and N")
	}
	if slices.Equal(forth, tally(Weather(8, 4), func(i int) int { return i })) {
		t.Error("it does not depend on its seed")
	}
	times := map[Fault]int{}
	for _, fault := range forth {
		times[fault]++
	}
	if hit := requests - times[None]; hit < requests/5 || hit > requests*3/10 {
		t.Errorf("%d of %d were hit", hit, requests)
	}
	for _, fault := range Faults {
		if n := times[fault]; n < requests/100 || n > requests/25 {
			t.Errorf("%v: %d of %d", fault, n, requests)
		}
	}
	if Weather(7, 0)(&Request{}) != None {
		t.Error("one in 0 was hit")
	}
}

// TestLargeBody: a part of a transfer passes whole, also one that asks to be let in.
func TestLargeBody(t *testing.T) {
	w := newWorld(t)
	body := bytes.Repeat([]byte("x"), 20<<20)
	request, err := http.NewRequest(http.MethodPut, "http://"+w.proxy.Address()+"/leases/k", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Expect", "100-continue") // as the SDKs do with large ones
	answer, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if len(w.applied) != 1 || len(w.applied[0]) < len(body) {
		t.Error("it did not come whole")
	}
}
