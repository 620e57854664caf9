package keep

import (
	"io"
	"sync"

	"github.com/mopslock/mopslock/host"
)

// out is the way to the parent. What is said is queued under a lock, in order, and one goroutine writes: a parent
// that is stopped holds nobody up.
type out struct {
	to io.Writer

	mu      sync.Mutex
	queue   []byte
	writing bool
	broken  bool // nobody reads any more
}

func newOut(to io.Writer) *out { return &out{to: to} }

// notice says what a client has said. It may be called under a lock.
func (o *out) notice(store uint64, n *host.Notice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = appendNotice(o.queue, store, n)
	o.begin()
}

// say says something of the keeper's own.
func (o *out) say(store uint64, m *said) {
	message := append(appendHead(nil, store, false), encode(m)...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, message...)
	o.begin()
}

func (o *out) begin() {
	if o.writing || o.broken {
		return
	}
	o.writing = true
	go o.write()
}

// write writes what is queued, as much at once as there is.
func (o *out) write() {
	var spare []byte
	for {
		o.mu.Lock()
		batch := o.queue
		o.queue = spare[:0]
		o.writing = len(batch) > 0 && !o.broken
		goes := o.writing
		o.mu.Unlock()
		if !goes {
			return
		}
		_, err := o.to.Write(batch)
		spare = batch
		if err != nil { // the end of in says more
			o.mu.Lock()
			o.broken = true
			o.mu.Unlock()
		}
	}
}
