package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

// place is a store below a prefix, and another way to see all around it.
type place struct {
	under store.Store // below the prefix
	root  store.Store // above it
	// objects is everything that is there, by its true key, with what tells any
	// write to it.
	objects func(t failer) map[string]string
	// sent counts the bytes that were sent to a server; nil where there is none.
	sent *atomic.Int64
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// hostilePlaces are all kinds of stores.
func hostilePlaces() map[string]func(*testing.T) place {
	places := map[string]func(*testing.T) place{"mem": memPlace, "file": filePlace}
	for _, kind := range Kinds {
		places[kind] = func(t *testing.T) place { return serverPlace(t, kind) }
	}
	return places
}

func memPlace(*testing.T) place {
	bucket := memblob.OpenBucket(nil)
	return place{
		under: cloud.New(bucket, &cloud.Options{Prefix: inside}),
		root:  cloud.New(bucket, nil),
		objects: func(t failer) map[string]string {
			found := map[string]string{}
			objects := bucket.List(nil)
			for {
				object, err := objects.Next(context.Background())
				if errors.Is(err, io.EOF) {
					return found
				}
				attributes := (*blob.Attributes)(nil)
				if err == nil {
					attributes, err = bucket.Attributes(context.Background(), object.Key)
				}
				if err != nil {
					t.Fatal(err)
				}
				found[object.Key] = fmt.Sprint(attributes.ETag, attributes.ModTime.UnixNano())
			}
		},
	}
}

// filePlace has the store some directories deep, and looks at all of them.
func filePlace(t *testing.T) place {
	dir := t.TempDir()
	return place{
		under:   openStore(t, "file://"+dir+"/bucket/"+hostilePrefix),
		root:    openStore(t, "file://"+dir+"/bucket"),
		objects: func(t failer) map[string]string { return files(t, dir, "bucket/") },
	}
}

// gatewaysOwn is what versitygw keeps for itself beside the objects.
var gatewaysOwn = []string{".vgwlocks", ".sgwtmp"}

// files are all below dir; what is below cut is called by the rest of its path.
func files(t failer, dir, cut string) map[string]string {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains(gatewaysOwn, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		key, inBucket := strings.CutPrefix(strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(dir)+"/"), cut)
		if !inBucket {
			key = "../" + key
		}
		found[key] = fmt.Sprint(info.ModTime().UnixNano(), body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func serverPlace(t *testing.T, kind string) place {
	s := Need(t, kind)
	var p place
	address := s.Address
	if kind != GCS { // which answers 404 to who calls it by another address
		counted := newCounter(t, address)
		address, p.sent = counted.address, &counted.sent
	}
	p.under, p.root = openStore(t, s.Under(address, hostilePrefix)), openStore(t, s.URL(address))
	p.objects = map[string]func(failer) map[string]string{
		S3:    func(t failer) map[string]string { return files(t, s.dir, bucket+"/") }, // which versitygw keeps so
		GCS:   func(t failer) map[string]string { return gcsObjects(t, s.Address) },
		Azure: func(t failer) map[string]string { return azureObjects(t, s.Address) },
	}[kind]
	return p
}

func openStore(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func gcsObjects(t failer, address string) map[string]string {
	answer, err := http.Get("http://" + address + "/storage/v1/b/" + bucket + "/o?maxResults=5000") //nolint:noctx // a server of ours, on loopback
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list struct {
		NextPageToken string
		Items         []struct{ Name, Generation, Md5Hash string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || list.NextPageToken != "" {
		t.Fatal(err, list.NextPageToken)
	}
	found := map[string]string{}
	for _, item := range list.Items {
		found[item.Name] = item.Generation + item.Md5Hash
	}
	return found
}

func azureObjects(t failer, address string) map[string]string {
	credential, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential("http://"+address+"/"+azureAccount+"/"+bucket, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for pages := client.NewListBlobsFlatPager(nil); pages.More(); {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Segment.BlobItems {
			found[*item.Name] = fmt.Sprint(*item.Properties.ETag, item.Properties.LastModified)
		}
	}
	return found
}

// counter passes connections on to a server, byte by byte, and counts what is sent.
type counter struct {
	address string
	sent    atomic.Int64
}

func newCounter(t *testing.T, to string) *counter {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{address: listener.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.pass(client, to) })
		}
	})
	return c
}

func (c *counter) pass(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { // ended by the closing of either
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	_, _ = io.Copy(server, io.TeeReader(client, c))
}

func (c *counter) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return len(b), nil
}
