package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// TestWhat: the verb and the key of requests that the conformance of servers does not show:
// parts, and requests that are no verb.
func TestWhat(t *testing.T) {
	for _, c := range []struct {
		kind, method, target string
		op                   Op
		key                  string
	}{
		{"s3", "POST", "/leases/p/k?uploads=", Part, "p/k"},
		{"s3", "DELETE", "/leases/p/k?uploadId=1", Part, "p/k"},
		{"s3", "PUT", "/leases", Other, ""},
		{"azblob", "PUT", "/account/leases/p/k?comp=block&blockid=1", Part, "p/k"},
		{"azblob", "PUT", "/account/leases?restype=container", Other, ""},
		{"gs", "GET", "/storage/v1/b/leases/o/p%2Fk?alt=media", Get, "p/k"},
		{"gs", "POST", "/upload/storage/v1/b/leases/o?uploadType=resumable&name=k", Part, "k"},
		{"gs", "PUT", "/upload/resumable/1", Part, ""},
		{"gs", "POST", "/storage/v1/b?project=tests", Other, ""},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		if op, key := speeches[c.kind].what(r, nil); op != c.op || key != c.key {
			t.Errorf("%s %s %s: %s %q, want %s %q", c.kind, c.method, c.target, op, key, c.op, c.key)
		}
	}
}

// TestDown: no request is answered, not even one that waits, and afterwards all is as before.
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

// TestDelayOutlivesItsSender: a network delivers a late request even when its client waits
// no more.
func TestDelayOutlivesItsSender(t *testing.T) {
	w := newWorld(t)
	w.proxy.SetDelay(50 * time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan bool)
	w.proxy.Choose(func(*Request) Fault { // the delay begins when the client waits no more
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

// TestCounts: requests count by verb; connections are not requests; the peak is not the sum.
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
}

// TestChance: the same seed gives the same faults in any order of requests; another seed
// gives others; every fault comes, and the others pass.
func TestChance(t *testing.T) {
	const requests = 4000
	kinds := map[string]struct {
		choose func(seed uint64, often int) func(*Request) Fault
		often  int
		all    int
		pass   int
	}{
		"weather": {Weather, 4, len(Faults), requests * 7 / 10},
		"liar":    {Liar, 25, 2 * len(Lies()), requests * 7 / 10},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			differ, times := 0, map[Fault]int{}
			for n := range requests {
				one := kind.choose(7, kind.often)(&Request{N: n})
				again := kind.choose(7, kind.often)
				again(&Request{N: n + 1})
				if again(&Request{N: n}) != one {
					t.Fatal("it depends on more than seed and N")
				}
				if one != kind.choose(8, kind.often)(&Request{N: n}) {
					differ++
				}
				times[one]++
			}
			if differ == 0 || times[None] < kind.pass || len(times) != kind.all+1 || kind.choose(7, 0)(&Request{}) != None {
				t.Errorf("%d differ; %v", differ, times)
			}
		})
	}
}

// TestLies: each wrong answer has the status of its table, and the server gets the request
// only if the answer says so. A redirect leads to a page, and not to the server.
func TestLies(t *testing.T) {
	w := newWorld(t)
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, lie := range Lies() {
		for _, fault := range []Fault{lie, lie | Sent} {
			w.proxy.Choose(func(*Request) Fault { return fault })
			for _, method := range []string{"GET", "HEAD", "PUT"} {
				before := w.times(method)
				status, body, err := w.ask(method, "/leases/k")
				got := w.times(method) - before
				if sent := fault&Sent != 0 || lie == Blank || lie == Swapped; got != map[bool]int{true: 1}[sent] {
					t.Errorf("%v %s: the server got %d", fault, method, got)
				}
				if want := lies[lie-firstLie].status; want != 0 && status != want {
					t.Errorf("%v %s: status %d, want %d", fault, method, status, want)
				}
				breaks := (lie == Garbage200 || lie == Gzip200) && method != "HEAD"
				if strings.Contains(body, "01234567") || (err != nil) != breaks {
					t.Errorf("%v %s: %q, %v", fault, method, body, err)
				}
			}
		}
	}
	w.client.CheckRedirect = nil
	w.proxy.Choose(func(*Request) Fault { return Found302 })
	if status, body, err := w.ask("GET", "/leases/k"); status != 200 || body != page {
		t.Errorf("behind the redirect: %d %q, %v", status, body, err)
	}
}
