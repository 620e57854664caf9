//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/tests/servers"
)

// storeFlag says where these tests keep their leases: each in a directory of its own, or
// under a prefix of its own on a real server, which is started for all of them:
//
//	go test ./cmd/mopslock-host -args -store=s3
var storeFlag = flag.String("store", "file", "the `kind` of store that the tests use: file, s3, gs or azblob")

// server is the one that storeFlag names, while tests run; nil for directories.
var server *servers.Server

func onDirectories() bool { return *storeFlag == "file" }

// withServer runs the tests with the server in the environment, and so in that of all
// that they start.
func withServer(run func() int) (status int) {
	if onDirectories() {
		return run()
	}
	started, err := servers.Start(*storeFlag)
	switch {
	case errors.Is(err, servers.ErrNotInstalled) && !servers.Required():
		fmt.Printf("SKIP: all tests with -store=%s: %v\n", *storeFlag, err)
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "FAIL: -store=%s: %v\n", *storeFlag, err)
		return 1
	}
	defer func() {
		if err := started.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "FAIL: %v\n", err)
			status = 1
		}
	}()
	server = started
	if flag.Lookup("test.parallel").Value.String() == parallel {
		_ = flag.Set("test.parallel", "16") // the server needs a processor, too
	}
	for _, line := range server.Env(server.Address) {
		name, value, _ := strings.Cut(line, "=")
		_ = os.Setenv(name, value)
	}
	return run()
}

// place is a store of a test's own.
type place struct {
	url    string // in its canonical spelling
	looks  string // the same for the test itself, which no outage concerns
	prefix string // on a server
}

// prefixes tells the places on a server apart, also when a test runs again.
var prefixes atomic.Int64

// newPlace is the store of that name beside others of the test whose directory is parent.
func newPlace(parent, name string) place {
	if onDirectories() {
		url := "file://" + filepath.ToSlash(filepath.Join(parent, name))
		return place{url: url, looks: url}
	}
	prefix := fmt.Sprintf("%d/%s", prefixes.Add(1), name)
	url := urlOn(server.Address, prefix)
	return place{url: url, looks: url, prefix: prefix}
}

// urlOn is that of a prefix on the server, which is reached by an address.
func urlOn(address, prefix string) string {
	url, err := store.Absolute(server.Under(address, prefix))
	if err != nil {
		panic(err) // ours
	}
	return url
}

// ttl is a TTL of so many seconds, or as many as a server needs: it stamps in whole
// seconds, and answers within seconds when 16 tests ask at once.
// A lease that is to be kept for a while has six or more, for a machine may stand still
// for some of them.
func ttl(seconds int) string { return fmt.Sprintf("%ds", ttlSeconds(seconds)) }

func ttlSeconds(seconds int) int {
	return either(seconds, max(seconds, 8))
}

// besideOthers lets a test that is many run while others do. On a directory, where TTLs
// are shorter, each has the processors for its own parallel parts.
func besideOthers(t *testing.T) {
	if !onDirectories() {
		t.Parallel()
	}
}

// pace is how long a loop that looks into the store waits between looks.
func pace() time.Duration {
	return either(5*time.Millisecond, 100*time.Millisecond)
}

// stores are those that the tests look into, by URL, opened once.
var stores sync.Map

// openStore opens a store as every program does.
func openStore(url string) (store.Store, error) {
	open := sync.OnceValues(func() (store.Store, error) { return store.Open(context.Background(), url) })
	once, _ := stores.LoadOrStore(url, open)
	return once.(func() (store.Store, error))()
}

// get reads an object, of any size.
func get(url, key string) ([]byte, error) {
	s, err := openStore(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	body, _, err := s.(store.Streamer).Open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// put writes an object whole.
func put(url, key string, body []byte) error {
	s, err := openStore(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return s.Put(ctx, key, body, "")
}

func remove(url, key string) error {
	s, err := openStore(url)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return s.Delete(ctx, key)
}

// list returns the keys that begin with prefix.
func list(url, prefix string) (keys []string, err error) {
	s, err := openStore(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	for more, after := true, ""; more; {
		var page []store.Info
		if page, more, err = s.List(ctx, prefix, after, 0); err != nil {
			return nil, err
		}
		for _, info := range page {
			keys = append(keys, info.Key)
			after = info.Key
		}
	}
	return keys, nil
}

// exists reports whether there is an object at key, or below it if it ends in "/". In
// a directory whatever is there counts, also a directory with nothing in it.
func exists(url, key string) (bool, error) {
	at, err := store.ParseURL(url)
	if err != nil {
		return false, err
	}
	if at.Dir != "" {
		_, err := os.Lstat(filepath.Join(at.Dir, filepath.FromSlash(key)))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	if strings.HasSuffix(key, "/") {
		keys, err := list(url, strings.TrimPrefix(key, "/"))
		return len(keys) > 0, err
	}
	_, err = get(url, key)
	if errors.Is(err, store.ErrAbsent) {
		return false, nil
	}
	return err == nil, err
}
