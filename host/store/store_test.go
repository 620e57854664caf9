package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	_ "github.com/mopslock/mopslock/host/store/local"
	_ "github.com/mopslock/mopslock/host/store/mem"
)

var withDrive = strings.NewReplacer("file:///", "file:///C:/", "FILE:///", "FILE:///C:/", "file://localhost/", "file://localhost/C:/", "file:/", "file:/C:/")

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"file:///dir":                   "file:///dir",
		"file://localhost/dir/":         "file:///dir",
		"file:/dir":                     "file:///dir",
		"FILE:///dir":                   "file:///dir",
		"file:///a/./b/../c//d":         "file:///a/c/d",
		"file:///a%20b/%23%3F%25":       "file:///a%20b/%23%3F%25",
		"file:///dir?prefix=a/b":        "file:///dir/a/b",
		"file:///dir?prefix=a/b/":       "file:///dir/a/b",
		"file:///dir?prefix=":           "file:///dir",
		"file:///":                      "file:///",
		"mem://":                        "mem://",
		"mem://?prefix=p%20q":           "mem://?prefix=p+q%2F",
		"s3://b":                        "s3://b",
		"s3://b/":                       "s3://b",
		"s3://b/locks":                  "s3://b/locks",
		"s3://b/locks/deep/":            "s3://b/locks/deep",
		"s3://b?prefix=locks":           "s3://b/locks",
		"s3://b?prefix=locks/&region=x": "s3://b/locks?region=x",
		"s3://b/?prefix=locks":          "s3://b/locks",
		"s3://b/p%20q?use_path_style=true&region=x":     "s3://b/p%20q?region=x&use_path_style=true",
		"s3://b?endpoint=http://127.0.0.1:9&region=x":   "s3://b?endpoint=http%3A%2F%2F127.0.0.1%3A9&region=x",
		"azblob://c/p?domain=127.0.0.1:1&protocol=http": "azblob://c/p?domain=127.0.0.1%3A1&protocol=http",
		"s3://b/p?region=x&clock=steady":                "s3://b/p?clock=steady&region=x",
		"gs://b/p?clock=hint":                           "gs://b/p?clock=hint",
		"gs://b/p":                                      "gs://b/p",
		"other://b/p?x=y":                               "other://b/p?x=y",
	} {
		if runtime.GOOS == "windows" { // paths have drives there
			raw, want = withDrive.Replace(raw), withDrive.Replace(want)
		}
		got, err := store.Absolute(raw)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", raw, got, err, want)
			continue
		}
		if again, err := store.Absolute(got); again != got || err != nil {
			t.Errorf("%s is not canonical: %q, %v", got, again, err)
		}
	}
	at, err := store.ParseURL("s3://b/locks/a?region=x")
	if err != nil || at.Prefix != "locks/a/" || at.Bucket != "b" || at.Query.Encode() != "region=x" {
		t.Errorf("%+v, %v", at, err)
	}
}

const secret = "s3cr3t"

func TestURLsRefused(t *testing.T) {
	for raw, says := range map[string]string{
		"":                                "it is empty, as where MOPSLOCK_STORE is unset",
		"/var/locks":                      "file:///absolute/path",
		"locks":                           "no scheme",
		"file:locks":                      "absolute path",
		"file://locks/dir":                "three slashes",
		"file://host/dir":                 "three slashes",
		"file://":                         "absolute path",
		"file:///a%00b":                   "NUL",
		"file:///a#b":                     "%23",
		"file:///a?b":                     `no parameter "b"`,
		"file:///a?prefix=../b":           `".." segment`,
		"file:///a?prefix=/b":             "empty segment",
		"file:///a?prefix=b&prefix=c":     "twice",
		"mem://x":                         "no host",
		"mem:///x":                        "no host",
		"mem://?nomd5":                    `no parameter "nomd5"`,
		"s3://":                           "names no bucket",
		"s3:///locks":                     "names no bucket",
		"s3://b/locks?prefix=x":           "keep one",
		"s3://b/a//b":                     "empty segment",
		"s3://b//a":                       "empty segment",
		"s3://b/../a":                     `".." segment`,
		"s3://b?key=x":                    "one key",
		"s3://b?clock=fine":               "clock= is steady or hint",
		"s3://b?clock=":                   "clock= is steady or hint",
		"s3://b?clock=hint&clock=steady":  "clock= is steady or hint",
		"file:///a?clock=steady":          `no parameter "clock"`,
		"s3://user:" + secret + "@b":      "environment",
		"s3://" + secret + "@b":           "environment",
		"s3://user:" + secret + "/x@b":    "not a URL",
		"s3://b/%zz" + secret:             "not a URL",
		"s3://b?sig=" + secret + "&x=%zz": "after the ?", // nothing of an unreadable query is shown
		"s3://b?endpoint=http://u:" + secret + "@h": "environment",
		"s3://b#" + secret:                          "fragment",
		"postgres://u/" + "x":                       "",
	} {
		_, err := store.Open(t.Context(), raw)
		var e *store.Error
		if !errors.As(err, &e) || !errors.Is(err, store.ErrURL) || e.Op != "open" {
			t.Errorf("%q: %v", raw, err)
			continue
		}
		if text := err.Error(); strings.Contains(text, secret) || !strings.Contains(strings.ReplaceAll(text, "what follows the ?", "after the ?"), says) {
			t.Errorf("%q: %v; want %q", raw, err, says)
		}
	}
}

func TestOpenUnknownScheme(t *testing.T) {
	_, err := store.Open(t.Context(), "s3://b/locks?secret_key="+secret)
	if err == nil || !strings.Contains(err.Error(), `import _ "github.com/mopslock/mopslock/host/store/s3"`) || strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
	_, err = store.Open(t.Context(), "ftp://b/locks")
	if err == nil || !strings.Contains(err.Error(), "azblob, file, gs, mem, s3") {
		t.Error(err)
	}
	got := slices.DeleteFunc(store.Schemes(), func(scheme string) bool { return scheme == "test-leaky" }) // another test's
	if fmt.Sprint(got) != "[file mem]" {
		t.Error(got)
	}
}

func TestOpenerErrorsAreRedacted(t *testing.T) {
	store.Register("test-leaky", func(_ context.Context, at *store.Location) (store.Store, error) {
		return nil, fmt.Errorf("open bucket %s: no", at)
	})
	_, err := store.Open(t.Context(), "test-leaky://b/p?token="+secret+"&region=here")
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "region=here") {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("registered twice without a panic")
		}
	}()
	store.Register("test-leaky", func(context.Context, *store.Location) (store.Store, error) { return nil, nil })
}

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"s3://b/p?region=r&sig=" + secret:                  "s3://b/p?region=r&sig=xxxxx",
		"s3://u:" + secret + "@b/p":                        "s3://b/p",
		"s3://b?endpoint=http://u:" + secret + "@h&region": "s3://b?endpoint=xxxxx&region=",
		"s3://b?endpoint=http://h:1&region=r":              "s3://b?endpoint=http%3A%2F%2Fh%3A1&region=r",
		"azblob://c?domain=" + secret + "@h":               "azblob://c?domain=xxxxx",
		"s3://b?%zz=" + secret:                             "s3://b?xxxxx",
		"s3://u:" + secret + "/@b":                         "s3://…",
		"":                                                 "",
		secret:                                             "(not a URL)",
		"u:" + secret:                                      "(not a URL)",
		"file:///a%20b":                                    "file:///a%20b",
		"file:///a#" + secret:                              "file:///a",
	} {
		if got := store.Redact(raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("s3", "u:p", "b/p?x=y")
	f.Add("file", "", "/dir")
	f.Fuzz(func(t *testing.T, scheme, user, rest string) {
		raw := scheme + "://" + user + ":hunter2@" + rest + "?q=hunter2"
		if strings.Contains(scheme+user+rest, "unter") || strings.ContainsAny(scheme, "/?#") || strings.ContainsAny(user, "/?#") {
			return
		}
		if shown := store.Redact(raw); strings.Contains(shown, "hunter2") {
			t.Fatalf("%q shows %q", raw, shown)
		}
		if _, err := store.ParseURL(raw); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("%q: %v", raw, err)
		}
	})
}

func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want core.Class
	}{
		{nil, core.ClassNone},
		{errors.New("x"), core.ClassOther},
		{context.Canceled, core.ClassOther},
		{context.DeadlineExceeded, core.ClassUnreachable},
		{os.ErrDeadlineExceeded, core.ClassUnreachable},
		{syscall.EROFS, core.ClassReadOnly},
		{&fs.PathError{Err: syscall.ENOSPC}, core.ClassFull},
		{&os.LinkError{Err: syscall.EDQUOT}, core.ClassFull},
		{&fs.PathError{Err: syscall.EACCES}, core.ClassUnauthorized},
		{syscall.ECONNREFUSED, core.ClassUnreachable},
		{&net.DNSError{IsNotFound: true}, core.ClassUnreachable},
		{&net.OpError{Op: "dial", Err: errors.New("x")}, core.ClassUnreachable},
		{&url.Error{Op: "Put", URL: "https://h/?sig=" + secret, Err: errors.New("bad certificate")}, core.ClassUnreachable},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), core.ClassUnreachable},
	} {
		if got := store.ClassOf(c.err); got != c.want {
			t.Errorf("%v: class %d, want %d", c.err, got, c.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	signed := &url.Error{Op: "Put", URL: "https://u:" + secret + "@h/c?sig=" + secret + "&se=1", Err: errors.New("no\n\x1b[31mroute")}
	for want, err := range map[string]*store.Error{
		`mopslock: store: put "n/lock.json": Put "https://h/c?…": no [31mroute (check the network and the endpoint; it may or may not have been applied: read it back)`: store.Fail("put", "n/lock.json", core.ClassUnreachable, signed),
		`mopslock: store: get "k": no such object`:                                                                                      store.Fail("get", "k", core.ClassNone, store.ErrAbsent),
		`mopslock: store: get "k": no (check the network and the endpoint)`:                                                             store.Fail("get", "k", core.ClassUnreachable, errors.New("no")),
		`mopslock: store: create "k": no (it may or may not have been applied: read it back)`:                                           store.Fail("create", "k", core.ClassOther, errors.New("no")),
		`mopslock: store: create "k": an object is already there (read it back: it may be our own, of a request whose answer was lost)`: store.Fail("create", "k", core.ClassNone, store.ErrExists),
	} {
		if err.Error() != want {
			t.Errorf("%s\nwant %s", err, want)
		}
	}
	long := store.Fail("get", "k", core.ClassOther, errors.New(strings.Repeat("é", 10_000)))
	if len(long.Error()) > 600 {
		t.Error(len(long.Error()))
	}
}

func TestOverdue(t *testing.T) {
	now := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), now.Add(time.Hour))
	defer cancel()
	for _, c := range []struct {
		now  time.Time
		late bool
	}{
		{now, false},
		{now.Add(time.Hour - 1), false},
		{now.Add(time.Hour), true},
		{now.Add(2 * time.Hour), true},
		{now.Round(0).Add(2 * time.Hour), true}, // only the wall clock went on: suspended
		{now.Round(0).Add(-2 * time.Hour), false},
	} {
		if err := store.Overdue(ctx, c.now); (err != nil) != c.late {
			t.Errorf("%v: %v", c.now.Sub(now), err)
		}
	}
	if err := store.Overdue(t.Context(), now.Add(1e6*time.Hour)); err != nil {
		t.Error(err)
	}
}

// TestPlaces: URLs of one store have one Place, by the table that Python reads as well.
func TestPlaces(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("these URLs are not of paths with a drive; host/store/local tests those")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("testdata/places.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		said := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(line, "localhost/D", "localhost"+dir), "D/", dir+"/"))
		one, other := store.Place(said[0]), store.Place(said[2])
		if same := one != "" && one == other; same != (said[1] == "=") {
			t.Errorf("%s: %q, %q", strings.TrimSpace(line), one, other)
		}
	}
	if got := store.Place("no URL"); got != "" {
		t.Errorf("of no URL: %q", got)
	}
}
