package host

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// denying fails every request of a store but those of some verbs, and returns what
// others were tried.
func (p *actor) denying(allowed ...string) (denied func() string) {
	p.store.on(func(c call) fault {
		if slices.Contains(allowed, c.verb) {
			return fine
		}
		return fault{class: core.ClassUnauthorized}
	})
	p.store.forget()
	return func() string {
		var out []string
		for _, verb := range strings.Fields(p.store.verbs()) {
			if !slices.Contains(allowed, verb) && !slices.Contains(out, verb) {
				out = append(out, verb)
			}
		}
		return strings.Join(out, " ")
	}
}

// used is a host on a store in which others have a held name, and used others.
func (w *world) used() *actor {
	w.Helper()
	p := w.host()
	p.strictly("there")
	p.release(p.strictly("n"))
	p.giveBack(p.permit("s", six))
	return w.host()
}

// The rights that host/store/README.md's policies give are enough, and each is needed.
func TestLeastRights(t *testing.T) {
	ctx := background
	strictly := func(p *actor) error {
		for range 40 { // until there is something to collect
			l, err := p.tryStrictly("n")
			if err != nil {
				return err
			}
			p.world.sleep(3 * minute)
			if err := errors.Join(l.Err(), l.Release(ctx)); err != nil {
				return err
			}
			p.world.sleep(20 * minute)
		}
		return nil
	}
	permit := func(p *actor) error {
		permit, err := p.tryPermit("s", six)
		if err != nil {
			return err
		}
		p.world.sleep(3 * minute)
		return permit.Release(ctx)
	}
	lastwriter := func(p *actor) error {
		l, err := p.try("w")
		if err != nil {
			return err
		}
		p.world.sleep(3 * minute)
		return errors.Join(l.Err(), l.Release(ctx))
	}
	look := func(p *actor) error {
		_, err := p.Inspect(ctx, "there")
		for _, failed := range p.List(ctx, "") {
			err = errors.Join(err, failed)
		}
		return err
	}
	for name, test := range map[string]struct {
		do      func(*actor) error
		allowed []string
		denied  string // what is also tried, and not missed
	}{
		"strict, without delete": {strictly, []string{"list", "get", "exists", "create", "put"}, "delete"},
		"permit, without delete": {permit, []string{"list", "get", "exists", "create", "put"}, ""},
		"lastwriter":             {lastwriter, []string{"get", "put"}, ""},
		"look":                   {look, []string{"list", "get"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.used()
				denied := p.denying(test.allowed...)
				w.ok(test.do(p))
				w.same("denied", denied(), test.denied)
			})
			for _, missing := range test.allowed {
				if missing == "exists" { // the same right as get, everywhere
					continue
				}
				bubble(t, func(w *world) {
					p := w.used()
					p.denying(slices.DeleteFunc(slices.Clone(test.allowed), func(verb string) bool { return verb == missing })...)
					if test.do(p) == nil {
						w.Errorf("without %s it works, too", missing)
					}
				})
			}
		})
	}
}
