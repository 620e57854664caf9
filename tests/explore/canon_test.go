package explore

import (
	"reflect"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// TestUnseen: what the normalisation leaves out is there, under that name.
func TestUnseen(t *testing.T) {
	k := &strictMaker{seed: 1, make: machines.New}
	there := map[string]bool{}
	for _, sc := range []*Scenario{k.sessions(), k.companion(), k.breaks(), shared().one(), makers()["strict"].alone(), makers()["lastwriter"].alone()} {
		e := newEngine(sc)
		w, err := e.root()
		if err != nil {
			t.Fatal(err)
		}
		store := sc.Store
		for i := range sc.Actors {
			s := &survivor{uint8(i), e.actors.items[w.actors[i]].program, noWake, []core.Event{sc.Actors[i].Tell[0].Event}}
			for now := range uint16(3) {
				if store, err = e.runTick(s, now, store); err != nil {
					t.Fatal(err)
				}
				fields(reflect.ValueOf(s.program.(*process).Client), there, map[met]bool{})
			}
		}
	}
	for name := range unseen {
		if !there[name] {
			t.Errorf("no client of these has a %s", name)
		}
	}
}

// fields notes the names of all fields below a value.
func fields(v reflect.Value, there map[string]bool, been map[met]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if at := (met{v.Pointer(), v.Type()}); !v.IsNil() && !been[at] {
			been[at] = true
			fields(v.Elem(), there, been)
		}
	case reflect.Interface:
		if !v.IsNil() {
			fields(v.Elem(), there, been)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fields(v.Index(i), there, been)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			fields(v.MapIndex(key), there, been)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			there[v.Type().String()+"."+v.Type().Field(i).Name] = true
			fields(v.Field(i), there, been)
		}
	}
}
