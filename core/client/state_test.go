package client_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/mopslock/mopslock/core"
)

// busyClient has something of everything.
func busyClient(t *testing.T) *process {
	t.Helper()
	b := newBucket()
	other := newProcess(t, b, 9)
	other.begin(core.EventAcquire, core.Config{Name: "taken"}, core.Event{Wait: core.Forever})
	p := newProcessOf(t, b, core.Config{Seed: [16]byte{1}, Watches: true, Remembers: true, Boot: "b", InFlight: 2})
	p.begin(core.EventAcquire, core.Config{Name: "waits"}, core.Event{Wait: core.Forever})
	p.begin(core.EventAcquire, core.Config{Name: "taken"}, core.Event{Wait: core.Forever})
	p.begin(core.EventAcquire, core.Config{Name: "held", OnSession: true}, core.Event{Wait: core.Forever})
	p.begin(core.EventPermit, core.Config{Name: "s"}, core.Event{Wait: core.Forever, Capacity: 1, Width: 1})
	p.begin(core.EventPermit, core.Config{Name: "s"}, core.Event{Wait: core.Forever, Capacity: 1, Width: 1})
	p.begin(core.EventWatch, core.Config{Name: "held"}, core.Event{})
	p.begin(core.EventWatch, core.Config{Name: "held"}, core.Event{})
	p.until(p.now + int64(core.Second))
	for _, name := range []string{"a", "b"} {
		claim := p.begin(core.EventAcquire, core.Config{Name: name}, core.Event{Wait: core.Forever})
		p.until(p.now + int64(core.Second))
		p.do(core.Event{Kind: core.EventRelease, Claim: claim})
	}
	p.holds = all
	for range 6 {
		p.begin(core.EventInvoke, core.Config{Name: "w"}, core.Event{Wait: 100 * core.Second})
	}
	return p
}

// TestAppendStateIsComplete: each field that can change what a client does is in its state's
// bytes, or the explorer would take two clients for one.
func TestAppendStateIsComplete(t *testing.T) {
	p := busyClient(t)
	outside := map[string][]string{
		"outbox":  {"bytes", "all", "slots", "usual", "flights"}, // of the latest Step; constant; disturbed below
		"pending": {"machine"},                                   // follows from the kind
		"session": {"users"},                                     // counted from those who do
		"unit":    {"Mask", "Direct", "claim"},                   // constant
		"alarm":   {"At", "serial", "index"},                     // in the order in which they ring
	}
	before := p.client.AppendState(nil)
	if p.client.UseOldest(); bytes.Equal(before, p.client.AppendState(nil)) {
		t.Error("the order of the names is not in the state")
	}
	parts := p.client.Parts()
	for _, name := range []string{"client", "claim", "pending", "handover", "delay", "unit", "name", "watch", "session", "semaphore", "outbox"} {
		if parts[name] == nil {
			t.Errorf("the client has no %s", name)
			continue
		}
		disturb(t, p, name, reflect.ValueOf(parts[name]).Elem(), append(outside[name], outside["alarm"]...))
	}
	flights := reflect.ValueOf(parts["outbox"]).Elem().FieldByName("table").FieldByName("flights")
	seen := map[string]bool{}
	for i := range flights.Len() {
		f := flights.Index(i)
		name, queued := "flight", f.FieldByName("queued")
		if !queued.IsNil() {
			name = "queued flight"
			disturb(t, p, "queued", queued.Elem(), outside["alarm"])
		}
		if f.FieldByName("id").Uint() != 0 && !seen[name] {
			seen[name] = true
			disturb(t, p, name, f, nil)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the client has only %v", seen)
	}
}

// disturb changes each number, text and flag of a struct in turn, and looks for it in the state.
func disturb(t *testing.T, p *process, path string, v reflect.Value, outside []string) {
	t.Helper()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if slices.Contains(outside, name) {
			continue
		}
		field := reflect.NewAt(v.Field(i).Type(), unsafe.Pointer(v.Field(i).UnsafeAddr())).Elem()
		before, old := p.client.AppendState(nil), reflect.New(field.Type()).Elem()
		old.Set(field)
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Int, reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Uint8, reflect.Uint32, reflect.Uint64:
			field.SetUint(field.Uint() + 1)
		case reflect.Slice: // what stands in it, in this order
			if field.Len() < 2 || field.Type().Elem().Kind() == reflect.Uint8 {
				continue
			}
			old = reflect.AppendSlice(reflect.MakeSlice(field.Type(), 0, field.Len()), field)
			reflect.Swapper(field.Interface())(0, field.Len()-1)
			if bytes.Equal(before, p.client.AppendState(nil)) {
				t.Errorf("the order of %s.%s is not in the state", path, name)
			}
			reflect.Copy(field, old)
			continue
		case reflect.Struct:
			if ours := field.Type().PkgPath(); ours == v.Type().PkgPath() {
				disturb(t, p, path+"."+name, field, outside)
			}
			continue
		default:
			continue
		}
		if bytes.Equal(before, p.client.AppendState(nil)) {
			t.Errorf("%s.%s is not in the state", path, name)
		}
		field.Set(old)
	}
}
