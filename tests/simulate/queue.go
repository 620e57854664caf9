package simulate

// occasion is what kind of thing comes next.
type occasion uint8

const (
	occasionApply   occasion = iota + 1 // a request reaches the store
	occasionAnswer                      // its answer, or that there is none, reaches the process
	occasionWake                        // a machine's wake
	occasionScript                      // an actor does what it means to do next
	occasionPoke                        // an ended machine is disturbed, to see that it is quiet
	occasionPause                       // a process stands still
	occasionCrash                       // a process ends without a word
	occasionRestart                     // and comes again
	occasionStep                        // a wall clock is set
	occasionCalm                        // the faults end
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
}

func (a *item) before(b *item) bool {
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}

// queue is a heap of what is to happen, earliest first.
type queue struct {
	items    []item
	sequence uint64
}

func (q *queue) push(it item) {
	q.sequence++
	it.sequence = q.sequence
	q.items = append(q.items, it)
	i := len(q.items) - 1
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

func (q *queue) pop() item {
	first, last := q.items[0], len(q.items)-1
	it := q.items[last]
	q.items[last] = item{}
	q.items = q.items[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && q.items[child+1].before(&q.items[child]) {
			child++
		}
		if !q.items[child].before(&it) {
			break
		}
		q.items[i] = q.items[child]
		i = child
	}
	q.items[i] = it
	return first
}
