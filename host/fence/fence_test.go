package fence

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/local"
)

// untouchable is a store that must get no request.
type untouchable struct{ store.Store }

func TestBadInputIsRefusedBeforeAnyRequest(t *testing.T) {
	ctx := t.Context()
	for _, key := range []string{"", "/a", "a//b", "a/", "a/../b", "a\\b", "a\x00", strings.Repeat("x", 1010)} {
		if _, err := Open(untouchable{}, key); !errors.Is(err, store.ErrKey) {
			t.Errorf("key %.20q: %v", key, err)
		}
	}
	o := open(t, untouchable{})
	long := make([]byte, MaxBody+1)
	for _, test := range []struct {
		tenure Tenure
		body   []byte
		says   string
	}{
		{Tenure{0, "h"}, nil, "this lease has no fencing token (lastwriter"},
		{Tenure{1, ""}, nil, "holder"},
		{Tenure{1, "\xff"}, nil, "holder"},
		{Tenure{1, strings.Repeat("h", 300)}, nil, "holder"},
		{Tenure{1, "h"}, long, "at most 64512"},
	} {
		_, err := o.Write(ctx, test.tenure, test.body)
		_, _, errOnce := CreateOnce(ctx, untouchable{}, "result", test.tenure, test.body)
		for _, err := range []error{err, errOnce} {
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v: %v; want %q", test.tenure, err, test.says)
			}
		}
	}
	if _, err := o.Update(ctx, Tenure{}, nil); err == nil || !strings.Contains(err.Error(), "token 0") || !strings.Contains(err.Error(), "holder") {
		t.Errorf("not every bad field is named: %v", err)
	}
	if _, err := o.Raise(ctx, Tenure{}); err == nil {
		t.Error("Raise without a tenure")
	}
}

// An update whose change fails, or makes too long a body, writes nothing.
func TestChangeThatFails(t *testing.T) {
	o := open(t, newStore(t))
	_, err := o.Update(t.Context(), tenure(1), func([]byte) ([]byte, error) { return nil, errFake })
	same(t, "error", err, errFake)
	_, err = o.Update(t.Context(), tenure(1), func([]byte) ([]byte, error) { return make([]byte, MaxBody+1), nil })
	if err == nil || o.slots(t) != 0 {
		t.Errorf("%v, %d slots", err, o.slots(t))
	}
}

func TestBodiesComeBackAsTheyWere(t *testing.T) {
	ctx := t.Context()
	s, err := local.Open(t.TempDir()) // a store that could take bytes for text
	ok(t, err)
	defer s.Close()
	o := open(t, s)
	none, err := o.Read(ctx)
	ok(t, err)
	if none.Number != 0 || none.Body != nil {
		t.Fatalf("nothing is %+v", none)
	}
	full := bytes.Repeat([]byte{0xff, '\n', 0}, MaxBody/3)
	for i, body := range [][]byte{[]byte("a\nb\n"), {}, nil, full} {
		wrote, err := o.Write(ctx, tenure(3), body)
		ok(t, err)
		read, err := o.Read(ctx)
		ok(t, err)
		if !bytes.Equal(read.Body, body) || read.Body == nil || read.Number != uint64(i+1) || read.Nonce != wrote.Nonce ||
			read.Token != 3 || read.Holder != tenure(3).Holder || read.Written != read.Number {
			t.Errorf("wrote %d bytes, read %d: %+v", len(body), len(read.Body), read)
		}
	}
}

// A person can read the head, and the body follows unchanged.
func TestWhatIsInTheStore(t *testing.T) {
	s := newStore(t)
	wrote, err := open(t, s).Write(t.Context(), Tenure{7, `h"<`}, []byte("twelve\nbytes"))
	ok(t, err)
	object, err := s.Get(t.Context(), "reports/nightly/_fence/fffffffffffffffe")
	ok(t, err)
	same(t, "the object", string(object.Body), `{"v":1,"slot":1,"token":7,"holder":"h\"\u003c","nonce":"`+wrote.Nonce+
		`","after":"","written":1,"size":12}`+"\ntwelve\nbytes")
}

func TestStaleTokenIsRefused(t *testing.T) {
	ctx, s := t.Context(), newStore(t)
	o := open(t, s)
	_, err := o.Write(ctx, tenure(6), []byte("new"))
	ok(t, err)
	called := false
	for what, try := range map[string]func() (Slot, error){
		"write": func() (Slot, error) { return o.Write(ctx, tenure(5), []byte("old")) },
		"raise": func() (Slot, error) { return o.Raise(ctx, tenure(5)) },
		"update": func() (Slot, error) {
			return o.Update(ctx, tenure(5), func(b []byte) ([]byte, error) { called = true; return b, nil })
		},
	} {
		_, err := try()
		is(t, err, ErrStale)
		stale, isStale := errors.AsType[*StaleError](err)
		if !isStale || stale.Token != 5 || stale.Newest.Token != 6 || stale.Newest.Holder != tenure(6).Holder {
			t.Errorf("%s: %+v", what, err)
		}
		for _, must := range []string{"token 5 is stale", "token 6", "reports/nightly", "stop what the lease guarded"} {
			if !strings.Contains(err.Error(), must) {
				t.Errorf("%s: %q is not in %v", what, must, err)
			}
		}
	}
	if called {
		t.Error("a stale update was computed")
	}
	same(t, "slots", o.slots(t), 1)
}

// A tenure that has not touched the object does not stop an older one; Raise does.
func TestRaise(t *testing.T) {
	ctx, s := t.Context(), newStore(t)
	o := open(t, s)
	empty, err := o.Raise(ctx, tenure(4))
	ok(t, err)
	if empty.Number != 1 || empty.Written != 0 || empty.Body != nil {
		t.Fatalf("raised over nothing: %+v", empty)
	}
	_, err = o.Update(ctx, tenure(5), func(old []byte) ([]byte, error) {
		if old != nil {
			t.Errorf("nothing was written yet, and old is %q", old)
		}
		return []byte("five"), nil
	})
	ok(t, err)
	_, err = o.Write(ctx, tenure(5), []byte("five again")) // 6 is held, and has not raised
	ok(t, err)
	raised, err := o.Raise(ctx, tenure(6))
	ok(t, err)
	if string(raised.Body) != "five again" || raised.Number != 4 || raised.Written != 3 || raised.Token != 6 {
		t.Fatalf("raised: %+v", raised)
	}
	_, err = o.Write(ctx, tenure(5), []byte("zombie"))
	is(t, err, ErrStale)
	again, err := o.Raise(ctx, tenure(6))
	ok(t, err)
	same(t, "raised twice", again.Nonce, raised.Nonce)
	same(t, "slots", o.slots(t), 4)
}

func TestTokensOfTwoNamesDoNotMix(t *testing.T) {
	o := open(t, newStore(t))
	_, err := o.Write(t.Context(), Tenure{3, "of one name"}, nil)
	ok(t, err)
	_, err = o.Write(t.Context(), Tenure{3, "of another"}, nil)
	is(t, err, ErrForeign)
	same(t, "slots", o.slots(t), 1)
}

func TestForeignBytesAreNeverWrittenOver(t *testing.T) {
	ctx := t.Context()
	good := (&Slot{Number: 1, Token: 1, Holder: "h", Nonce: "n", Written: 1, Body: []byte("x")}).encode()
	change := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	for name, test := range map[string]struct {
		object []byte
		want   error
	}{
		"empty":     {nil, ErrCorrupt},
		"text":      {[]byte("hello\nworld"), ErrCorrupt},
		"json":      {[]byte(`{"a":1}` + "\n"), ErrCorrupt},
		"no line":   {bytes.TrimSuffix(good, []byte("\nx")), ErrCorrupt},
		"cut":       {good[:len(good)-1], ErrCorrupt},
		"longer":    {append(bytes.Clone(good), 'y'), ErrCorrupt},
		"spaces":    {change(`"v":1`, `"v": 1`), ErrCorrupt},
		"field":     {change(`"v":1`, `"v":1,"w":1`), ErrCorrupt},
		"slot":      {change(`"slot":1`, `"slot":2`), ErrCorrupt},
		"token":     {change(`"token":1`, `"token":0`), ErrCorrupt},
		"negative":  {change(`"size":1`, `"size":-1`), ErrCorrupt},
		"written":   {change(`"written":1`, `"written":9`), ErrCorrupt},
		"unwritten": {change(`"written":1`, `"written":0`), ErrCorrupt},
		"newer":     {change(`"v":1`, `"v":2,"more":[]`), ErrNewer},
		"long head": {change(`"n"`, `"`+strings.Repeat("n", 2000)+`"`), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			o := open(t, s)
			ok(t, s.Store.Create(ctx, o.slotKey(1), test.object, ""))
			_, err := o.Read(ctx)
			is(t, err, test.want)
			_, err = o.Write(ctx, tenure(9), nil)
			is(t, err, test.want)
			if !strings.Contains(err.Error(), "fffffffffffffffe") {
				t.Errorf("the key is not named: %v", err)
			}
			same(t, "slots", o.slots(t), 1)
		})
	}
}

// A reader skips keys that are no slots, even a page of them.
func TestOtherKeysBesideTheSlots(t *testing.T) {
	ctx, s := t.Context(), newStore(t)
	o := open(t, s)
	_, err := o.Write(ctx, tenure(1), []byte("x"))
	ok(t, err)
	for i := range 3 * slotsAPage {
		ok(t, s.Store.Create(ctx, o.prefix+"00-"+strconv.Itoa(i), nil, ""))
	}
	ok(t, s.Store.Create(ctx, o.prefix+"ffffffffffffffff", nil, "")) // would be slot 0
	ok(t, s.Store.Create(ctx, o.prefix+"FFFFFFFFFFFFFF00", nil, ""))
	read, err := o.Read(ctx)
	ok(t, err)
	same(t, "body", string(read.Body), "x")
}

func TestRequests(t *testing.T) {
	ctx, s := t.Context(), newStore(t)
	o := open(t, s)
	for _, test := range []struct {
		what string
		do   func() error
		want string
	}{
		{"read nothing", func() error { _, err := o.Read(ctx); return err }, "list"},
		{"first write", func() error { _, err := o.Write(ctx, tenure(1), nil); return err }, "list create"},
		{"read", func() error { _, err := o.Read(ctx); return err }, "list get"},
		{"write", func() error { _, err := o.Write(ctx, tenure(1), nil); return err }, "list get create"},
		{"raise", func() error { _, err := o.Raise(ctx, tenure(2)); return err }, "list get create"},
		{"raise again", func() error { _, err := o.Raise(ctx, tenure(2)); return err }, "list get"},
		{"once", func() error { _, _, err := CreateOnce(ctx, s, "r", tenure(2), nil); return err }, "create"},
		{"lose once", func() error { _, _, err := CreateOnce(ctx, s, "r", tenure(2), nil); return err }, "create get get"},
	} {
		ok(t, test.do())
		same(t, test.what, s.Requests(), test.want)
	}
}

func increment(old []byte) ([]byte, error) {
	n := 0
	if old != nil {
		var err error
		if n, err = strconv.Atoi(string(old)); err != nil {
			return nil, err
		}
	}
	return strconv.AppendInt(nil, int64(n+1), 10), nil
}

// lease is a Claim, as Of takes it.
type lease struct{}

func (lease) FencingToken() uint64 { return 7 }
func (lease) Holder() string       { return "h" }

func TestOf(t *testing.T) { same(t, "tenure", Of(lease{}), Tenure{7, "h"}) }

// The first result stays, whatever process comes later and with whatever token.
func TestCreateOnce(t *testing.T) {
	ctx, s := t.Context(), newStore(t)
	_, err := ReadOnce(ctx, s, "result")
	is(t, err, store.ErrAbsent)
	first, won, err := CreateOnce(ctx, s, "result", tenure(5), []byte("first"))
	ok(t, err)
	same(t, "won", won, true)
	second, won, err := CreateOnce(ctx, s, "result", tenure(6), []byte("second"))
	ok(t, err)
	same(t, "won", won, false)
	read, err := ReadOnce(ctx, s, "result")
	ok(t, err)
	for _, slot := range []Slot{first, second, read} {
		if string(slot.Body) != "first" || slot.Token != 5 || slot.Nonce != first.Nonce {
			t.Errorf("%+v", slot)
		}
	}
	if _, err := ReadOnce(ctx, untouchable{}, ""); !errors.Is(err, store.ErrKey) {
		t.Error(err)
	}
	if _, _, err := CreateOnce(ctx, untouchable{}, "/", tenure(1), nil); !errors.Is(err, store.ErrKey) {
		t.Error(err)
	}
}

// TestPanics: a driver that panics ends no process that holds a lease. Its requests have no outcome.
func TestPanics(t *testing.T) {
	ctx, broken := t.Context(), struct{ store.Store }{}
	_, errWrite := open(t, broken).Write(ctx, Tenure{1, "h"}, nil)
	_, _, errOnce := CreateOnce(ctx, broken, "result", Tenure{1, "h"}, nil)
	_, errRead := ReadOnce(ctx, broken, "result")
	for _, err := range []error{errWrite, errOnce, errRead} {
		if _, ok := errors.AsType[*store.PanicError](err); !ok {
			t.Error(err)
		}
	}
}
