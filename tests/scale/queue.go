package main

import (
	"cmp"
	"slices"
)

// occasion is what kind of thing comes next.
type occasion uint8

const (
	occasionApply  occasion = iota + 1 // a request reaches the store
	occasionAnswer                     // its answer, or that there is none, reaches the process
	occasionWake                       // a machine's wake
	occasionScript                     // a slot does what it means to do next
	occasionBegin                      // a process begins
	occasionDie                        // a process ends without a word, and another comes
)

// item is one thing that is to happen.
type item struct {
	at       int64
	sequence uint64 // among those of one instant, the first that was put in
	kind     occasion
	turn     uint32 // of a script: it stands only if nothing came between
	request  *request
	unit     *unit
	slot     *slot
	process  *process
}

// lastFirst orders items so that what comes next is at the end.
func lastFirst(a, b item) int {
	return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.sequence, a.sequence))
}

// The queue's calendar: an era is a number of pages, and a page a number of nanoseconds.
const (
	pageBits = 20 // about a millisecond
	eraBits  = 35 // about 34 s
	pages    = 1 << (eraBits - pageBits)
)

// queue is a calendar of what is to happen, earliest first: nothing is ever put in
// before what was taken out. The page at hand is in order, the last first; the others of
// its era, and the later eras, are what was put in, in no order.
type queue struct {
	items    []item // of the page at hand
	page     int64
	calendar [pages][]item
	later    [][]item // by era
	sequence uint64
	left     int
}

func (q *queue) push(it item) {
	q.sequence++
	it.sequence = q.sequence
	q.left++
	q.file(it)
}

// file puts an item where it belongs.
func (q *queue) file(it item) {
	page := it.at >> pageBits
	era := it.at >> eraBits
	switch {
	case page <= q.page:
		i, _ := slices.BinarySearchFunc(q.items, it, lastFirst) // near the end: it comes soon
		q.items = slices.Insert(q.items, i, it)
	case era == q.page>>(eraBits-pageBits):
		q.calendar[page%pages] = append(q.calendar[page%pages], it)
	default:
		for int64(len(q.later)) <= era {
			q.later = append(q.later, nil)
		}
		q.later[era] = append(q.later[era], it)
	}
}

// pop takes out what comes next; there must be something.
func (q *queue) pop() item {
	for len(q.items) == 0 {
		q.turn()
	}
	q.left--
	last := len(q.items) - 1
	it := q.items[last]
	q.items = slices.Delete(q.items, last, last+1)
	return it
}

// turn goes on to the next page.
func (q *queue) turn() {
	q.page++
	if q.page%pages == 0 {
		if era := q.page / pages; era < int64(len(q.later)) {
			for _, it := range q.later[era] {
				q.file(it)
			}
			q.later[era] = nil
		}
	}
	at := q.page % pages
	if len(q.calendar[at]) == 0 {
		return
	}
	spare := q.items
	q.items, q.calendar[at] = q.calendar[at], nil
	if len(spare) == 0 && cap(spare) < 1<<10 { // its room serves again
		q.calendar[at] = spare
	}
	slices.SortFunc(q.items, lastFirst)
}
