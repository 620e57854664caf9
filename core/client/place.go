package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// maxNames bounds the names of which a release is remembered.
const maxNames = 16_384

// place is one name: the claims on it in the order in which they came, and what this
// process remembers of it.
type place struct {
	name       string
	claims     []*claim
	semaphores []*semaphore
	last       remembered
	isListed   bool   // among the released
	kept       uint64 // the fingerprint that the host remembers, or 0
}

// remembered is how this process released a name. Its next claim knows the newest version
// from that, and does not look.
type remembered struct {
	epoch  core.Epoch
	at     int64 // Mono
	looked int64 // Mono: no old client had a record then; 0 is nothing
}

func (c *Client) enroll(cl *claim, name string) {
	p := c.places[name]
	if p == nil {
		p = &place{name: name}
		c.places[name] = p
	}
	p.claims = append(p.claims, cl)
	cl.place = p
}

func (c *Client) expel(cl *claim) {
	p := cl.place
	for i := range p.claims {
		if p.claims[i] == cl {
			p.claims = append(p.claims[:i], p.claims[i+1:]...)
			break
		}
	}
	c.vacate(p)
}

// vacate forgets a name of which there is nothing to know.
func (c *Client) vacate(p *place) {
	if len(p.claims) == 0 && len(p.semaphores) == 0 && !p.isListed && p.kept == 0 {
		delete(c.places, p.name)
	}
}

// nudgeOne tells the longest waiter that a name was released. One is enough, and a crowd
// would only lose races; if that one ends without the name, the next one is told.
// freed is when this client released it, a Mono, or 0.
func (c *Client) nudgeOne(p *place, freed int64) {
	for _, cl := range p.claims {
		if cl.waiting && !cl.over && c.nudges() {
			cl.nudged = true
			if cl.handover != nil {
				cl.handover.freed = freed
			}
			c.post(job{claim: cl, kind: core.EventChanged})
			return
		}
	}
}

// passOn tells the next waiter of a release that brought a claim nothing.
func (c *Client) passOn(cl *claim) {
	if !cl.nudged {
		return
	}
	cl.nudged = false
	freed := int64(0)
	if cl.handover != nil {
		freed = cl.handover.freed
	}
	c.nudgeOne(cl.place, freed)
}

// releasedBy remembers a release that frees the name at once.
func (c *Client) releasedBy(cl *claim, a *core.Action) {
	if a.At == 0 || a.Epoch == 0 || cl.looked == 0 {
		return
	}
	p := cl.place
	p.last = remembered{a.Epoch, a.At, cl.looked}
	if p.isListed {
		return
	}
	p.isListed = true
	if c.released = append(c.released, p.name); len(c.released) > maxNames {
		old := c.places[c.released[0]]
		c.released = c.released[1:]
		old.last, old.isListed = remembered{}, false
		c.vacate(old)
	}
}

// takeLast takes what is remembered of a name: its release, which spares a look while it
// is young, and the latest look for an old client's record, which is repeated now and
// then, however often the name is acquired again.
func (p *place) takeLast() remembered {
	last := p.last
	p.last = remembered{}
	return last
}

// saw has the host remember what a waiter or a refused claim saw, if it is news.
func (c *Client) saw(cl *claim, s *core.Observed) {
	if s == nil || s.Fingerprint == 0 || cl.protocol != core.ProtocolStrict || !c.remembers() || cl.place.kept == s.Fingerprint {
		return
	}
	cl.place.kept = s.Fingerprint
	body := octets.AppendBE64(nil, s.Fingerprint)
	body = octets.AppendBE64(body, uint64(s.Since))
	body = octets.AppendBE64(body, uint64(s.Since+c.now.Wall-c.now.Mono))
	a := c.emit(core.ActionRemember)
	a.Key, a.Body = cl.place.name, c.keep(append(body, c.cfg.Boot...))
}

// forget: the name is held by us, or not to be judged by what was seen any more.
func (c *Client) forget(p *place) {
	if p.kept != 0 {
		p.kept = 0
		c.emit(core.ActionForget).Key = p.name
	}
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
		if !has(w.claims, cl) {
			w.claims = append(w.claims, cl)
		}
	}
	for _, w := range old {
		if !has(cl.watches, w) {
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
		c.emit(core.ActionWatch).Key = key
	}
	return w
}

func (c *Client) unwatch(cl *claim) {
	if len(cl.watches) > 0 {
		c.watch(cl)
	}
}

func (c *Client) endWatch(w *watch) {
	if len(w.claims) == 0 && len(w.units) == 0 && c.watched[w.key] == w {
		delete(c.watched, w.key)
		c.emit(core.ActionUnwatch).Key = w.key
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
		if !first || !cl.held {
			c.post(job{claim: cl, kind: core.EventChanged})
		}
	}
	for _, u := range w.units {
		if _, calls := u.owner.(*session); !first || !calls {
			c.post(job{unit: u, kind: core.EventChanged})
		}
	}
}

func has[T comparable](all []T, one T) bool {
	for i := range all {
		if all[i] == one {
			return true
		}
	}
	return false
}

func without[T comparable](all []T, one T) []T {
	for i := range all {
		if all[i] == one {
			return append(all[:i], all[i+1:]...)
		}
	}
	return all
}
