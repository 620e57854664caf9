package store

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A URL's prefix cannot lead out of the bucket, or above the directory, that the URL names.
// No prefix is the beginning of another.
func TestHostilePrefix(t *testing.T) {
	for _, bad := range []string{
		"s3://b/../x", "s3://b/a/../x", "s3://b/%2e%2e/x", "s3://b/a%2f%2e%2e%2fx", "s3://b//x", "s3://b/a//b", "s3://b/a/./b", "s3://b/a%5cb", "s3://b/a%00",
		"s3://b?prefix=../x", "s3://b?prefix=/x", "s3://b?prefix=a/../../x", "s3://b?prefix=a&prefix=b", "s3://b/a?prefix=b", "s3://b?prefix=%ff",
		"gs://b?prefix=..", "azblob://b/..", "mem://?prefix=../x", "file:///d?prefix=../x", "file:///d?prefix=/x", "s3://?prefix=x", "s3:///x",
	} {
		if at, err := ParseURL(bad); !errors.Is(err, ErrURL) {
			t.Errorf("%s is taken: %+v", bad, at)
		}
	}
	for good, want := range map[string]string{
		"s3://b/locks": "locks/", "s3://b/locks/": "locks/", "s3://b?prefix=locks": "locks/", "s3://b/..%252fx": "..%2fx/", "s3://b/a%2fb": "a/b/", "s3://b/": "",
	} {
		if at, err := ParseURL(good); err != nil || at.Prefix != want {
			t.Errorf("%s: %+v, %v", good, at, err)
		}
	}
}

// TestAnyPrefix: no prefix leads out, whatever its parts are and in whichever way it is
// written. No key that CheckKey takes leads out either.
func TestAnyPrefix(t *testing.T) {
	tokens := []string{"..", ".", "/", `\`, "\x00", "%2e", "%2f", "%252e", "a", "locks", "?", "#", "&prefix=", "．", "\xff", "~", ":", "@"}
	rapid.Check(t, func(t *rapid.T) {
		prefix := strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 1, 6).Draw(t, "prefix"), "")
		for _, rawURL := range []string{"s3://b/" + prefix, "s3://b?prefix=" + prefix, "s3://b?prefix=" + url.QueryEscape(prefix), "s3://b/" + url.PathEscape(prefix)} {
			at, err := ParseURL(rawURL)
			if err != nil {
				continue
			}
			if at.Bucket != "b" || at.Prefix != "" && (!strings.HasSuffix(at.Prefix, "/") || at.Prefix != path.Clean(at.Prefix)+"/" || strings.HasPrefix(at.Prefix, "/")) {
				t.Fatalf("%q: %+v", rawURL, at)
			}
			if at.Prefix == "../" || strings.HasPrefix(at.Prefix, "../") {
				t.Fatalf("%q: %+v", rawURL, at)
			}
		}
		if err := CheckKey(prefix); err == nil && (path.Clean("/locks/"+prefix) != "/locks/"+prefix || strings.ContainsAny(prefix, "\\\x00")) {
			t.Fatalf("key %q is taken", prefix)
		}
		at, err := ParseURL("file:///dir?prefix=" + url.QueryEscape(prefix))
		if err == nil && at.Dir != "/dir" && !strings.HasPrefix(at.Dir, "/dir/") {
			t.Fatalf("%q: %+v", prefix, at)
		}
	})
}

// If a program was built without one of our schemes, the error says what to import.
func TestUnknownSchemeNamesItsImport(t *testing.T) {
	for scheme, path := range drivers() {
		if text := unknownScheme(scheme).Error(); !strings.Contains(text, `import _ "`+path+`"`) {
			t.Errorf("%s: %s", scheme, text)
		}
	}
}
