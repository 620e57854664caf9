package client

import (
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// maxNames bounds the names of which something is remembered.
const maxNames = 16_384

// nameState is one name: the claims on it in the order in which they came, and what this
// process remembers of it.
type nameState struct {
	base.Shared
	text       string
	claims     []*claim
	semaphores []*semaphore
	last       remembered
	kept       uint64     // the fingerprint that the host remembers, or 0
	isListed   bool       // among c.known, since there is something to remember
	prev, next *nameState // there
}

// rememberedNames are those of which something is remembered, in the order in which they were used.
type rememberedNames struct {
	oldest, newest *nameState
	n              int
}

func (k *rememberedNames) add(p *nameState) {
	p.isListed, p.prev = true, k.newest
	if p.prev == nil {
		k.oldest = p
	} else {
		p.prev.next = p
	}
	k.newest = p
	k.n++
}

func (k *rememberedNames) remove(p *nameState) {
	if p.prev == nil {
		k.oldest = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		k.newest = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.isListed, p.prev, p.next = false, nil, nil
	k.n--
}

// remembered is how this process released a name. Its next claim knows the newest version
// from that, and does not look.
type remembered struct {
	epoch  core.Epoch
	at     int64 // Mono
	looked int64 // Mono: no old client had a record then; 0 is nothing
}

func (c *Client) addClaim(cl *claim, name string) {
	p := c.names[name]
	if p == nil {
		p = &nameState{text: name}
		c.names[name] = p
	}
	p.claims = append(p.claims, cl)
	cl.name = p
}

func (c *Client) removeClaim(cl *claim) {
	cl.name.claims = without(cl.name.claims, cl)
	c.forgetIfUnused(cl.name)
}

// forgetIfUnused forgets a name of which there is nothing to know.
func (c *Client) forgetIfUnused(p *nameState) {
	if len(p.claims) == 0 && len(p.semaphores) == 0 && !p.isListed {
		delete(c.names, p.text)
	}
}

// used puts a name behind all others that are remembered, or takes it out if there is nothing to
// remember of it. If they are too many, the one that was used longest ago is forgotten.
func (c *Client) used(p *nameState) {
	if p.isListed {
		c.known.remove(p)
	}
	if p.last != (remembered{}) || p.kept != 0 {
		c.known.add(p)
	}
	if c.known.n > maxNames {
		old := c.known.oldest
		old.last = remembered{}
		c.forget(old)
		c.forgetIfUnused(old)
	}
}

// wakeNextWaiter tells the longest waiter that a name was released. One is enough, and a crowd
// would only lose races; if that one ends without the name, the next one is told.
// freed is when this client released it, a Mono, or 0.
func (c *Client) wakeNextWaiter(p *nameState, freed int64) {
	for _, cl := range p.claims {
		if cl.state.isWaiting() && c.wakesWaiters() {
			cl.woken = true
			if cl.handover != nil {
				cl.handover.freed = freed
			}
			c.post(job{claim: cl, kind: core.EventChanged})
			return
		}
	}
}

// passWakeOn tells the next waiter of a release that brought a claim nothing.
func (c *Client) passWakeOn(cl *claim) {
	if !cl.woken {
		return
	}
	cl.woken = false
	freed := int64(0)
	if cl.handover != nil {
		freed = cl.handover.freed
	}
	c.wakeNextWaiter(cl.name, freed)
}

// releasedBy remembers a release that frees the name at once.
func (c *Client) releasedBy(cl *claim, a *core.Action) {
	if a.At == 0 || a.Epoch == 0 || cl.looked == 0 {
		return
	}
	cl.name.last = remembered{a.Epoch, a.At, cl.looked}
	c.used(cl.name)
}

// takeLast takes what is remembered of a name: its release, which spares a look while it
// is young, and the latest look for an old client's record, which is repeated now and
// then, however often the name is acquired again.
func (c *Client) takeLast(p *nameState) remembered {
	last := p.last
	p.last = remembered{}
	c.used(p)
	return last
}

// saw has the host remember what a waiter or a refused claim saw, if it is news.
func (c *Client) saw(cl *claim, s *core.Observed) {
	if s == nil || s.Fingerprint == 0 || cl.protocol != core.ProtocolStrict || !c.remembers() || cl.name.kept == s.Fingerprint {
		return
	}
	cl.name.kept = s.Fingerprint
	c.used(cl.name)
	body := octets.AppendBE64(nil, s.Fingerprint)
	body = octets.AppendBE64(body, uint64(s.Since))
	body = octets.AppendBE64(body, uint64(s.Since+c.now.Wall-c.now.Mono))
	a := c.outbox.Emit(core.ActionRemember)
	a.Key, a.Body = cl.name.text, c.outbox.Keep(append(body, c.cfg.Boot...))
}

// forget: the name is held by us, or not to be judged by what was seen any more.
func (c *Client) forget(p *nameState) {
	if p.kept != 0 {
		p.kept = 0
		c.outbox.Emit(core.ActionForget).Key = p.text
	}
	c.used(p)
}

// remembers reports whether observations can be of use to another process: they are by
// the clock of a boot.
func (c *Client) remembers() bool { return c.cfg.Remembers && c.cfg.Boot != "" }

// recall is what an earlier process saw: a fingerprint of all beats, and since when it
// stood unchanged; 0 is nothing, as for another boot, or one that only has the name of ours.
func (c *Client) recall(now core.Instant, body []byte) (print uint64, since int64) {
	const numbers = 3 * 8
	if !c.remembers() || len(body) < numbers || string(body[numbers:]) != c.cfg.Boot {
		return 0, 0
	}
	since, ok := now.Emitted(int64(octets.BE64(body[8:])), int64(octets.BE64(body[16:])))
	if !ok {
		return 0, 0
	}
	return octets.BE64(body), since
}

// watch is one key of which the host tells changes, and who wants to know.
type watch struct {
	base.Shared
	key    string
	begun  bool // the host has said that it watches
	claims []*claim
	units  []*unit // of a session, whose next call it is, or of semaphores
}

// watch asks for changes of these keys and no others on behalf of a claim.
func (c *Client) watch(cl *claim, keys ...string) {
	if !c.cfg.Watches {
		return
	}
	old := cl.watches
	cl.watches = nil
	for _, key := range keys {
		w := c.watchOf(key)
		cl.watches = append(cl.watches, w)
		if !slices.Contains(w.claims, cl) {
			w.claims = append(w.claims, cl)
		}
	}
	for _, w := range old {
		if !slices.Contains(cl.watches, w) {
			w.claims = without(w.claims, cl)
			c.endWatch(w)
		}
	}
}

func (c *Client) watchOf(key string) *watch {
	w := c.watched[key]
	if w == nil {
		w = &watch{key: key}
		c.watched[key] = w
		c.outbox.Emit(core.ActionWatch).Key = key
	}
	return w
}

// isWatched reports whether the host tells of each change that the claim waits for: it has said
// that it watches.
func (cl *claim) isWatched() bool {
	return len(cl.watches) > 0 && !slices.ContainsFunc(cl.watches, func(w *watch) bool { return !w.begun })
}

func (c *Client) unwatch(cl *claim) {
	if len(cl.watches) > 0 {
		c.watch(cl)
	}
}

func (c *Client) endWatch(w *watch) {
	if len(w.claims) == 0 && len(w.units) == 0 && c.watched[w.key] == w {
		delete(c.watched, w.key)
		c.outbox.Emit(core.ActionUnwatch).Key = w.key
	}
}

// changed tells who watches a key. The first word of the host is that it watches: who waits
// looks once more then, since what changed before was not told; who holds does not.
func (c *Client) changed(key string) {
	w := c.watched[key]
	if w == nil {
		return
	}
	first := !w.begun
	w.begun = true
	for _, cl := range w.claims {
		if !first || !cl.state.isHeld() {
			c.post(job{claim: cl, kind: core.EventChanged})
		}
	}
	for _, u := range w.units {
		if _, calls := u.owner.(*session); !first || !calls {
			c.post(job{unit: u, kind: core.EventChanged})
		}
	}
}

// without takes one out of a list, and nil is a list of none: a name that is remembered keeps
// no room for the claims that it has had.
func without[T comparable](all []T, one T) []T {
	switch i := slices.Index(all, one); {
	case i == 0: // as who has waited longest
		all = rest(all)
	case i > 0:
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// rest is a queue without its first, which the queue's room keeps no longer.
func rest[T any](queue []T) []T {
	clear(queue[:1])
	return queue[1:]
}
