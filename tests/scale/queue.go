package main

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

func (a *item) before(b *item) bool {
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}

// The queue's calendar: an era has so many pages, and a page so many nanoseconds.
const (
	pageBits = 20 // about a millisecond
	eraBits  = 35 // about 34 s
	pages    = 1 << (eraBits - pageBits)
)

// queue is a calendar of what is to happen, earliest first: nothing is ever put in
// before what was taken out. The page at hand is a heap; the others of its era,
// and the later eras, are what was put in, in no order.
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
		q.items = append(q.items, it)
		q.up(len(q.items) - 1)
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
	first, last := q.items[0], len(q.items)-1
	q.items[0] = q.items[last]
	q.items[last] = item{}
	q.items = q.items[:last]
	if last > 1 {
		q.down(0)
	}
	return first
}

// turn goes on to the next page.
func (q *queue) turn() {
	q.page++
	if q.page%pages == 0 {
		if era := q.page / pages; era < int64(len(q.later)) {
			filed := q.later[era]
			q.later[era] = nil
			for _, it := range filed {
				q.file(it)
			}
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
	for i := len(q.items)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *queue) up(i int) {
	it := q.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !it.before(&q.items[parent]) {
			break
		}
		q.items[i] = q.items[parent]
		i = parent
	}
	q.items[i] = it
}

func (q *queue) down(i int) {
	it := q.items[i]
	for {
		child := 2*i + 1
		if child >= len(q.items) {
			break
		}
		if child+1 < len(q.items) && q.items[child+1].before(&q.items[child]) {
			child++
		}
		if !q.items[child].before(&it) {
			break
		}
		q.items[i] = q.items[child]
		i = child
	}
	q.items[i] = it
}
