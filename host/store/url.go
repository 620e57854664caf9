package store

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mopslock/mopslock/core"
)

// Location is a parsed store URL.
type Location struct {
	Scheme string
	// Bucket is the bucket or container; "" for file and mem.
	Bucket string
	// Dir is the directory of a file URL, including the prefix: absolute, clean and
	// in the system's own spelling. It is "" for all other schemes.
	Dir string
	// Prefix comes before every key: "" or a path that ends in "/".
	Prefix string
	// Clock is what the URL says of the clock behind a bucket's stamps: ClockSteady,
	// ClockHint, or "" for what the driver knows of its endpoint.
	Clock string
	// Query has the driver's own parameters.
	Query url.Values
}

// What clock= in a URL may say.
const (
	ClockSteady = "steady" // nobody sets it while leases are held
	ClockHint   = "hint"   // no lease is judged dead by it
)

// ParseURL parses a store URL:
//
//	file:///dir                 a local directory, made when it is opened, but for create=false
//	mem://                      a store of this process, for tests; each Open makes a new one
//	s3://bucket/locks?region=…  the path is a prefix: objects are at locks/…
//	gs://bucket/locks           likewise
//	azblob://container/locks    likewise
//
// ?prefix=locks means the same as a path, on any scheme. ParseURL refuses both
// together. ?clock=steady or hint says of a bucket whether its stamps can be trusted. It also refuses userinfo (credentials belong in the environment), a
// fragment, a relative or remote file URL, unknown parameters on file and mem, and gocloud's
// key=, which would put all objects at one key. The error is ErrURL, and shows nothing
// of the URL that may be secret.
func ParseURL(rawURL string) (*Location, error) {
	at, err := parse(rawURL)
	if err != nil {
		return nil, Fail("open", Redact(rawURL), core.ClassOther, err)
	}
	return at, nil
}

// Absolute returns the canonical spelling of a store URL, which means the same from any
// working directory. It is for handing to a child process and for comparing. It shows
// what the query has in it, also secrets.
func Absolute(rawURL string) (string, error) {
	at, err := ParseURL(rawURL)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

// Place names the store at a URL: two URLs of one store have one Place, however they are
// spelled. It is the canonical URL without create and clock, in which a directory has no symbolic
// link, as far as it exists. It is "" for mem, of which each Open makes another store, and for
// what is no URL.
func Place(rawURL string) string {
	at, err := parse(rawURL)
	if err != nil || at.Scheme == "mem" {
		return ""
	}
	if at.Clock = ""; at.Scheme == "file" {
		at.Dir, at.Query = withoutLinks(at.Dir), nil
	}
	return at.String()
}

func withoutLinks(dir string) string {
	if found, err := filepath.EvalSymlinks(dir); err == nil {
		return found
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return dir
	}
	return filepath.Join(withoutLinks(parent), filepath.Base(dir))
}

// String returns the canonical URL: the prefix is in the path, parameters are sorted.
func (l *Location) String() string {
	query := l.Query
	if l.Clock != "" {
		query = maps.Clone(query)
		query.Set("clock", l.Clock)
	}
	u := url.URL{Scheme: l.Scheme, Host: l.Bucket, RawQuery: query.Encode()}
	switch {
	case l.Scheme == "file":
		u.Path = filepath.ToSlash(l.Dir)
		if !strings.HasPrefix(u.Path, "/") { // C:/dir
			u.Path = "/" + u.Path
		}
	case l.Scheme == "mem" && l.Prefix == "":
		return "mem://"
	case l.Scheme == "mem":
		return "mem://?prefix=" + url.QueryEscape(l.Prefix)
	default:
		u.Path = strings.TrimSuffix("/"+l.Prefix, "/")
	}
	return u.String()
}

func parse(rawURL string) (*Location, error) {
	if rawURL == "" {
		return nil, fmt.Errorf("%w: it is empty, as where MOPSLOCK_STORE is unset; give one such as s3://bucket/prefix", ErrURL)
	}
	// The errors of url.Parse quote the URL, and so any password in it.
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not a URL such as s3://bucket/prefix; percent-encode unusual characters", ErrURL)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: what follows the ? is not name=value&name=value; percent-encode unusual characters", ErrURL)
	}
	if err := checkShape(u, query); err != nil {
		return nil, err
	}
	prefix, err := takePrefix(query)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "file":
		return fileLocation(u, query, prefix)
	case "mem":
		return memLocation(u, query, prefix)
	}
	return bucketLocation(u, query, prefix)
}

func checkShape(u *url.URL, query url.Values) error {
	switch {
	case u.Scheme == "":
		return fmt.Errorf("%w: it has no scheme; a directory is written file:///absolute/path", ErrURL)
	case u.User != nil:
		return fmt.Errorf("%w: it holds a user or password; credentials belong in the environment", ErrURL)
	case u.Fragment != "" || strings.Contains(u.Opaque, "#"):
		return fmt.Errorf("%w: it has a fragment; write # as %%23", ErrURL)
	case u.Opaque != "":
		return fmt.Errorf("%w: it needs %s:// and an absolute path", ErrURL, u.Scheme)
	case query.Has("key"):
		return fmt.Errorf("%w: the parameter key= would put all objects at one key", ErrURL)
	}
	for _, name := range []string{"endpoint", "domain"} {
		if strings.Contains(query.Get(name), "@") {
			return fmt.Errorf("%w: %s= holds a user or password; credentials belong in the environment", ErrURL, name)
		}
	}
	return nil
}

// takePrefix removes prefix= from query, and returns "" or a prefix that ends in "/".
func takePrefix(query url.Values) (string, error) {
	values := query["prefix"]
	query.Del("prefix")
	if len(values) > 1 {
		return "", fmt.Errorf("%w: it has prefix= twice", ErrURL)
	}
	if len(values) == 0 {
		return "", nil
	}
	return cleanPrefix(values[0])
}

func cleanPrefix(prefix string) (string, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	if err := CheckKey(prefix); err != nil {
		return "", fmt.Errorf("%w: its prefix: %w", ErrURL, err)
	}
	return prefix + "/", nil
}

func fileLocation(u *url.URL, query url.Values, prefix string) (*Location, error) {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return nil, fmt.Errorf("%w: a file URL has three slashes, file:///absolute/path, and is of this machine; give a share of the network a mount point or a drive", ErrURL)
	case !strings.HasPrefix(u.Path, "/"):
		return nil, fmt.Errorf("%w: a file URL needs an absolute path, file:///absolute/path", ErrURL)
	case strings.ContainsRune(u.Path, 0):
		return nil, fmt.Errorf("%w: its path has a NUL", ErrURL)
	}
	mustExist, err := takeCreate(query)
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		return nil, unknownParameter(query, "file", "prefix and create")
	}
	if mustExist {
		query.Set("create", "false")
	}
	dir := path.Clean(u.Path)
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, "/") // file:///C:/dir
		if filepath.VolumeName(dir) == dir {
			dir += "/" // of the drive's root, and not of what is current there
		}
	}
	dir = filepath.Join(filepath.FromSlash(dir), filepath.FromSlash(prefix))
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%w: a file URL needs an absolute path, file:///C:/path", ErrURL)
	}
	return &Location{Scheme: "file", Dir: dir, Query: query}, nil
}

func memLocation(u *url.URL, query url.Values, prefix string) (*Location, error) {
	if u.Host != "" || u.Path != "" {
		return nil, fmt.Errorf("%w: mem:// has no host and no path", ErrURL)
	}
	if len(query) > 0 {
		return nil, unknownParameter(query, "mem", "prefix")
	}
	return &Location{Scheme: "mem", Prefix: prefix, Query: query}, nil
}

func bucketLocation(u *url.URL, query url.Values, prefix string) (*Location, error) {
	if u.Host == "" {
		return nil, fmt.Errorf("%w: it names no bucket: %s://bucket/prefix", ErrURL, u.Scheme)
	}
	fromPath, err := cleanPrefix(strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		return nil, err
	}
	if fromPath != "" && prefix != "" {
		return nil, fmt.Errorf("%w: it has a path and prefix=, which say the same; keep one", ErrURL)
	}
	clock, err := takeClock(query)
	if err != nil {
		return nil, err
	}
	return &Location{Scheme: u.Scheme, Bucket: u.Host, Prefix: fromPath + prefix, Clock: clock, Query: query}, nil
}

// takeClock removes clock= from query.
func takeClock(query url.Values) (string, error) {
	values := query["clock"]
	query.Del("clock")
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) == 1 && (values[0] == ClockSteady || values[0] == ClockHint):
		return values[0], nil
	}
	return "", fmt.Errorf("%w: clock= is %s or %s", ErrURL, ClockSteady, ClockHint)
}

// takeCreate removes create= from query, and reports whether it is false. True is what a store
// does anyway.
func takeCreate(query url.Values) (mustExist bool, err error) {
	values := query["create"]
	query.Del("create")
	switch {
	case len(values) == 0, len(values) == 1 && values[0] == "true":
		return false, nil
	case len(values) == 1 && values[0] == "false":
		return true, nil
	}
	return false, fmt.Errorf("%w: create= is true once, or false: then the directory is not made", ErrURL)
}

func unknownParameter(query url.Values, scheme, known string) error {
	name := slices.Min(slices.Collect(maps.Keys(query)))
	return fmt.Errorf("%w: %s:// knows no parameter %q, only %s (a ? in a path is written %%3F)", ErrURL, scheme, name, known)
}

// Redact returns rawURL in a form that is safe to show: without userinfo and fragment,
// and with the values of only those parameters that are known to be harmless. If rawURL
// is not a URL, Redact shows its scheme at most.
func Redact(rawURL string) string {
	if rawURL == "" {
		return ""
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		scheme, _, found := strings.Cut(rawURL, "://")
		if !found || len(scheme) > 20 || strings.ContainsFunc(scheme, notScheme) {
			return "(not a URL)"
		}
		return scheme + "://…"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		u.RawQuery = redactQuery(u.RawQuery)
	}
	return u.String()
}

func notScheme(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

const hidden = "xxxxx"

func redactQuery(raw string) string {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return hidden
	}
	for name, values := range query {
		for i := range values {
			if !harmless(name) || name != "prefix" && strings.ContainsAny(values[i], "@?") {
				values[i] = hidden
			}
		}
	}
	return query.Encode()
}

// harmless reports whether a parameter of gocloud's drivers holds no secret.
func harmless(name string) bool {
	switch name {
	case "prefix", "clock", "create", "endpoint", "region", "profile", "use_path_style", "s3ForcePathStyle", "disable_https", "accelerate",
		"dualstack", "fips", "anonymous", "hostname_immutable", "rate_limiter_capacity",
		"request_checksum_calculation", "response_checksum_validation", "ssetype", "awssdk",
		"domain", "protocol", "localemu", "cdn", "storage_account",
		"universe_domain", "grpc", "zonal":
		return true
	}
	return false
}
