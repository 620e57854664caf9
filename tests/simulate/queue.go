package simulate

import (
	"container/heap"
	"slices"
)

// occasion is what kind of thing comes next.
type occasion uint8

const (
	occasionApply   occasion = iota + 1 // a request reaches the store
	occasionAnswer                      // its answer, or that there is none, reaches the process
	occasionWake                        // a client's wake
	occasionChange                      // a process is told that a key has changed
	occasionScript                      // an actor does what it means to do next
	occasionPoke                        // a client is told of a claim that has ended, to see that it is quiet
	occasionPause                       // a process stands still
	occasionCrash                       // a process ends without a word
	occasionClose                       // a process ends in order
	occasionRestart                     // and comes again
	occasionStep                        // a wall clock is set
	occasionCalm                        // the faults end; of a process, it keeps its session
)

// item is one thing that is to happen.
type item struct {
	at       int64
	sequence uint64 // among those of one instant, the first that was put in
	kind     occasion
	turn     uint32 // of a wake or a script: it stands only if nothing came between
	unit     *unit
	request  *request
	slot     *slot
	process  *process
	key      string
}

// queue is a heap of what is to happen, earliest first.
type queue struct {
	items    []*item
	sequence uint64
}

func (q *queue) push(it item) {
	q.sequence++
	it.sequence = q.sequence
	heap.Push(q, &it)
}

// pop takes out what comes next; there must be something.
func (q *queue) pop() item { return *heap.Pop(q).(*item) }

// Len implements heap.Interface.
func (q *queue) Len() int { return len(q.items) }

// Less implements heap.Interface.
func (q *queue) Less(i, j int) bool {
	a, b := q.items[i], q.items[j]
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}

// Swap implements heap.Interface.
func (q *queue) Swap(i, j int) { q.items[i], q.items[j] = q.items[j], q.items[i] }

// Push implements heap.Interface.
func (q *queue) Push(it any) { q.items = append(q.items, it.(*item)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(q.items) - 1
	it := q.items[last]
	q.items = slices.Delete(q.items, last, last+1)
	return it
}
