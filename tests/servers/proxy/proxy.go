// Package proxy is a bad network, for tests: it stands before a server of a cloud's
// protocol on loopback, counts what passes, and makes some of it fail in the ways in
// which real networks and front doors do. It can also lie: see the wrong answers.
//
// The test chooses each request's fault (see Proxy.Choose, and Weather for chance with
// a seed), and the proxy carries it out, so that every fault is the same on S3, GCS and
// Azure. All that the proxy knows of a protocol is the verb of a request, and how the
// protocol refuses.
//
// It holds each request and each answer whole, so it is not for large bodies.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Fault is what goes wrong with one request.
type Fault uint8

// The faults.
const (
	None Fault = iota
	// Delay keeps the request for Proxy.SetDelay's time before it goes on, also
	// when its client has gone, as a network does.
	Delay
	// CutBefore closes the connection before anything was sent on.
	CutBefore
	// CutRequest sends half of the body on, or of the head where there is no body,
	// and closes both connections: the server must not have applied it.
	CutRequest
	// CutAfter sends the request on, and closes the connection instead of answering:
	// the server has applied the request, and the client is not told.
	CutAfter
	// CutAnswer closes the connection in the middle of the answer's body, or of its
	// head where there is no body.
	CutAnswer
	// Conflict answers 409 as the cloud says it of a race, and sends nothing on.
	Conflict
	// OwnSuccess sends the request on and answers a write that succeeded with 412:
	// what a client gets that sends a write again because it lost the first answer.
	// Other requests pass.
	OwnSuccess
	// Throttled answers 429, Broken 500, and Busy 503 with RetryAfter; nothing is
	// sent on.
	Throttled
	Broken
	Busy
	// Truncated answers with half of the body, and with the length of that half.
	Truncated
	// Duplicated sends the request twice, one after the other, and answers with the
	// second answer, as a retrying front door does.
	Duplicated
)

// RetryAfter is what Busy sends: Retry-After: 1.
const RetryAfter = time.Second

// Faults are all of them but None and the wrong answers.
var Faults = []Fault{
	Delay, CutBefore, CutRequest, CutAfter, CutAnswer, Conflict, OwnSuccess,
	Throttled, Broken, Busy, Truncated, Duplicated,
}

var names = [...]string{
	"None", "Delay", "CutBefore", "CutRequest", "CutAfter", "CutAnswer", "Conflict", "OwnSuccess",
	"Throttled", "Broken", "Busy", "Truncated", "Duplicated",
}

// String is the fault's name.
func (f Fault) String() string {
	if f.isLie() {
		return f.lieName()
	}
	return names[f]
}

// Request is one request that came, as the chooser sees it.
type Request struct {
	Op  Op
	Key string // of the object, with every prefix, or the prefix of a list
	N   int    // how many came before it since the proxy was made or Reset
}

// Counts is what a proxy has seen since it was made or Reset.
type Counts struct {
	Ops         map[Op]int    // requests that came, with a fault or without
	Faults      map[Fault]int // as they were chosen
	Connections int           // that clients made
	Peak        int           // requests under way at once: neither answered nor given up
}

// Total is how many requests came.
func (c Counts) Total() int {
	total := 0
	for _, n := range c.Ops {
		total += n
	}
	return total
}

// Proxy stands before one server. Its methods may be called at any time and from
// any goroutine. Close it.
type Proxy struct {
	speech  speech
	target  string
	address string
	onward  *http.Transport
	life    context.Context // of the proxy
	end     context.CancelFunc
	serving sync.WaitGroup // requests, and servers

	mu       sync.Mutex
	server   *http.Server // nil: down
	choose   func(*Request) Fault
	delay    time.Duration
	came     int
	underWay int
	counts   Counts
	seen     [2]seen // the last bodies that the server has sent, of two objects
}

// New makes a proxy on a loopback port of its own before the server at target,
// host:port, which speaks the protocol of kind: s3, gs or azblob. It is up.
func New(kind, target string) (*Proxy, error) {
	talk, known := speeches[kind]
	if !known {
		return nil, fmt.Errorf("no protocol %q, only of %v", kind, slices.Sorted(maps.Keys(speeches)))
	}
	p := &Proxy{
		speech: talk,
		target: target,
		onward: &http.Transport{
			DisableCompression:  true, // what was signed is sent on as it is
			MaxIdleConnsPerHost: 256,
			// Sooner than any server closes them: that would be a fault that no test chose.
			IdleConnTimeout: time.Second,
		},
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.Reset()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.address = listener.Addr().String()
	p.serve(listener)
	return p, nil
}

// Address is where it listens, host:port: the same as long as it lives.
func (p *Proxy) Address() string { return p.address }

// Choose sets the function that chooses each request's fault, from the next request on;
// nil is None for all. Many goroutines call the function at once.
func (p *Proxy) Choose(choose func(*Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
}

// SetDelay sets how long Delay keeps a request; it is 0 at first.
func (p *Proxy) SetDelay(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// Counts is what it has seen.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Ops, c.Faults = maps.Clone(c.Ops), maps.Clone(c.Faults)
	return c
}

// Reset begins to count anew. Peak begins at what is under way now.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.came = 0
	p.counts = Counts{Ops: map[Op]int{}, Faults: map[Fault]int{}, Peak: p.underWay}
}

// Down takes the network away: new connections are refused, and every open one breaks,
// wherever its request is.
func (p *Proxy) Down() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		_ = server.Close() // the error is of the listener, which does not listen any more
	}
}

// Up brings the network back, at the same address. It fails if another process has
// taken the address, and after Close.
func (p *Proxy) Up() error {
	p.mu.Lock()
	down := p.server == nil
	p.mu.Unlock()
	switch {
	case !down:
		return nil
	case p.life.Err() != nil:
		return net.ErrClosed
	}
	listener, err := net.Listen("tcp", p.address)
	if err == nil {
		p.serve(listener)
	}
	return err
}

// Close takes the proxy down forever, and waits for the requests that it was carrying.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.end()
	p.mu.Unlock()
	p.Down()
	p.serving.Wait()
	p.onward.CloseIdleConnections()
	return nil
}

// serve takes connections until Down.
func (p *Proxy) serve(listener net.Listener) {
	// A context of its own, so that Down ends the requests that wait here.
	life, end := context.WithCancel(p.life)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return context.WithValue(life, lifeKey{}, life) },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				p.mu.Lock()
				p.counts.Connections++
				p.mu.Unlock()
			}
		},
		Handler: http.HandlerFunc(p.handle),
	}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	p.serving.Add(1)
	go func() {
		defer p.serving.Done()
		defer end()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic("proxy: " + err.Error()) // only we close our listener
		}
	}()
}

// lifeKey is where a request's context has the context that Down ends.
type lifeKey struct{}

// Weather is chance: it hits one request in oneIn (none if that is 0) with a fault, and
// all faults are equally likely. A request's fault depends on seed and on its N alone.
func Weather(seed uint64, oneIn int) func(*Request) Fault {
	return func(r *Request) Fault {
		chance := rand.New(rand.NewPCG(seed, uint64(r.N)))
		if oneIn <= 0 || chance.IntN(oneIn) != 0 {
			return None
		}
		return Faults[chance.IntN(len(Faults))]
	}
}

// begin makes Close wait for a request. After Close it returns false.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return false
	}
	p.serving.Add(1)
	return true
}

// enter notes that a request came, and chooses its fault.
func (p *Proxy) enter(op Op, key string) (Fault, time.Duration) {
	p.mu.Lock()
	request := &Request{Op: op, Key: key, N: p.came}
	p.came++
	p.counts.Ops[op]++
	p.underWay++
	p.counts.Peak = max(p.counts.Peak, p.underWay)
	choose, delay := p.choose, p.delay
	p.mu.Unlock()
	if choose == nil {
		return None, delay
	}
	fault := choose(request) // without the lock: it may ask for Counts
	if fault != None {
		p.mu.Lock()
		p.counts.Faults[fault]++
		p.mu.Unlock()
	}
	return fault, delay
}

func (p *Proxy) leave() {
	p.mu.Lock()
	p.underWay--
	p.mu.Unlock()
}
