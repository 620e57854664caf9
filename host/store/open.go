package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mopslock/mopslock/core"
)

// Opener opens the store at a Location of its scheme. ctx bounds the opening
// only.
type Opener func(ctx context.Context, at *Location) (Store, error)

// registry is filled by the init functions of driver packages and only read
// after that. It is the one mutable variable of this package.
var registry = struct {
	sync.RWMutex
	openers map[string]Opener
}{openers: map[string]Opener{}}

const module = "github.com/mopslock/mopslock/host/store/"

// drivers says which of our packages brings a scheme.
func drivers() map[string]string {
	return map[string]string{
		"azblob": module + "azblob",
		"file":   module + "local",
		"gs":     module + "gs",
		"mem":    module + "mem",
		"s3":     module + "s3",
	}
}

// Register makes Open know a scheme. Drivers call it in an init function; a
// scheme registered twice panics.
func Register(scheme string, open Opener) {
	if scheme == "" || scheme != strings.ToLower(scheme) || open == nil {
		panic("mopslock: store: Register needs a scheme in lower case and an opener")
	}
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.openers[scheme]; taken {
		panic("mopslock: store: scheme " + scheme + " registered twice")
	}
	registry.openers[scheme] = open
}

// Schemes returns the registered schemes in byte order.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.openers))
}

// Open opens the store at a URL; ParseURL lists the kinds of URLs. It asks nothing of
// the store (a driver may look for credentials), so the first verb finds out if the
// store is missing or out of reach. No verb of the store panics (Guard). The error is ErrURL if the URL is at fault, and
// never shows a secret of the URL.
func Open(ctx context.Context, rawURL string) (Store, error) {
	at, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	registry.RLock()
	open := registry.openers[at.Scheme]
	registry.RUnlock()
	if open == nil {
		return nil, Fail("open", Redact(rawURL), core.ClassOther, unknownScheme(at.Scheme))
	}
	s, err := open(ctx, at)
	if err == nil {
		return Guard(s), nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return nil, err
	}
	return nil, Fail("open", Redact(rawURL), ClassOf(err), err)
}

func unknownScheme(scheme string) error {
	if path, ours := drivers()[scheme]; ours {
		return fmt.Errorf("%w: this program was built without %s:// stores; in Go add: import _ %q; mopslock-host has them unless it is built with -tags mopslock_nocloud", ErrURL, scheme, path)
	}
	known := slices.Sorted(maps.Keys(drivers()))
	for _, s := range Schemes() {
		if !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	return fmt.Errorf("%w: no store has the scheme %q; there are %s", ErrURL, scheme, strings.Join(known, ", "))
}
