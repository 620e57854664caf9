package world

// Queue is virtual time, and all that is to happen in it: the earliest first, and of one
// instant what was put in first.
type Queue struct {
	Now    int64
	heap   []entry
	serial uint64
}

type entry struct {
	at     int64
	serial uint64
	do     func()
}

func (e *entry) before(other *entry) bool {
	return e.at < other.at || e.at == other.at && e.serial < other.serial
}

// At has something happen at an instant.
func (q *Queue) At(at int64, do func()) {
	q.serial++
	q.heap = append(q.heap, entry{at, q.serial, do})
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.heap[i].before(&q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

// After has something happen so much later.
func (q *Queue) After(delay int64, do func()) { q.At(q.Now+delay, do) }

// Next goes on to what comes next, and takes it out; nil is nothing.
func (q *Queue) Next() func() {
	last := len(q.heap) - 1
	if last < 0 {
		return nil
	}
	first := q.heap[0]
	q.heap[0], q.heap[last] = q.heap[last], entry{}
	q.heap = q.heap[:last]
	for i, child := 0, 1; child < last; child = 2*i + 1 {
		if child+1 < last && q.heap[child+1].before(&q.heap[child]) {
			child++
		}
		if !q.heap[child].before(&q.heap[i]) {
			break
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
	q.Now = first.at
	return first.do
}
