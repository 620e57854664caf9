package keep

import "sync"

// inbox is what is to be done, in order, by one goroutine. It has room for all: who puts something into it never waits.
type inbox struct {
	mu    sync.Mutex
	come  *sync.Cond
	queue []func()
	over  bool
}

func newInbox() *inbox {
	i := &inbox{}
	i.come = sync.NewCond(&i.mu)
	return i
}

// put returns false if nobody takes it any more.
func (i *inbox) put(do func()) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		i.queue = append(i.queue, do)
		i.come.Signal()
	}
	return !i.over
}

// end has take return nil when all is taken.
func (i *inbox) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	i.come.Signal()
}

// take waits for the next.
func (i *inbox) take() (do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.queue) == 0 && !i.over {
		i.come.Wait()
	}
	if len(i.queue) > 0 {
		do, i.queue = i.queue[0], i.queue[1:]
	}
	return do
}
