package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// TestNothingShowsTheKey: what commands print, record and keep, and what they leave
// in the store, has nothing of the key that they enter it by, right or wrong.
func TestNothingShowsTheKey(t *testing.T) {
	command := filepath.Join(t.TempDir(), "mopslock-host")
	if out, err := exec.Command("go", "build", "-o", command, "github.com/mopslock/mopslock/cmd/mopslock-host").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const wrong = "d3JvbmctaHVudGVyMi1rZXk=" // base64, as Azure's must be
	for kind, secrets := range map[string]struct{ variable, right string }{
		S3:    {"AWS_SECRET_ACCESS_KEY", s3Secret},
		Azure: {"AZURE_STORAGE_KEY", azureKey},
	} {
		for _, key := range []string{secrets.right, wrong} {
			t.Run(fmt.Sprintf("%s/%v", kind, key == secrets.right), func(t *testing.T) {
				s := Need(t, kind)
				c := commands{t: t, command: command, dir: t.TempDir(), url: s.Under(s.Address, hostilePrefix), key: secrets.variable + "=" + key}
				c.all(key == secrets.right)
				c.search(key, c.shown)
				if key == secrets.right {
					c.searchStore(key, openStore(t, s.URL(s.Address)))
				}
			})
		}
	}
}

// commands runs commands, and collects what they show.
type commands struct {
	t       *testing.T
	command string
	dir     string
	url     string
	key     string // as the environment has it
	shown   string
	number  int
}

func (c *commands) all(work bool) {
	for _, protocol := range []string{"strict", "lastwriter"} {
		lease := c.run(work, "acquire", "a-"+protocol, "--ttl", "1m", "--protocol", protocol, "--wait", "0")
		c.run(work, "run", "r-"+protocol, "--protocol", protocol, "--wait", "0", "--", "true")
		c.run(work, "invoke", "i-"+protocol, "--protocol", protocol, "--", "true")
		c.run(work, "status", "--json", "a-"+protocol)
		c.run(work, "ls", "--json")
		if work {
			c.run(true, "accompany", "--lease", lease, "--", "true")
			c.run(true, "release", lease)
		}
	}
	c.run(work, "permit", "p", "--capacity", "1", "--width", "1", "--wait", "1m", "--", "true")
}

func (c *commands) run(work bool, words ...string) (stdout string) {
	c.t.Helper()
	c.number++
	own := append([]string{words[0], "--trace", filepath.Join(c.dir, fmt.Sprint("trace", c.number))}, words[1:]...)
	cmd := exec.Command(c.command, own...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.key, "MOPSLOCK_STORE="+c.url, "XDG_CACHE_HOME="+filepath.Join(c.dir, "cache"), "MOPSLOCK_LEASE=", "MOPSLOCK_HELD=")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	failed := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &failed) {
		c.t.Fatal(err)
	}
	// No result of `true`, which prints nothing, is 70.
	if worked := err == nil || words[0] == "invoke" && failed.ExitCode() == 70; worked != work {
		c.t.Errorf("%q: %v: %s", words, err, said.String())
	}
	c.shown += out.String() + said.String()
	return out.String()
}

// search looks at what was shown and at all files.
func (c *commands) search(key, shown string) {
	c.t.Helper()
	if strings.Contains(shown, key) {
		c.t.Errorf("shown: %s", shown)
	}
	traces := 0
	for path, body := range files(c.t, c.dir, "") {
		if strings.Contains(path, "trace") {
			traces++
		}
		if content, err := os.ReadFile(filepath.Join(c.dir, path)); err != nil || bytes.Contains(content, []byte(key)) {
			c.t.Errorf("%s: %v %s", path, err, body)
		}
	}
	if traces == 0 {
		c.t.Error("no recording")
	}
}

func (c *commands) searchStore(key string, s store.Store) {
	c.t.Helper()
	page, _, err := s.List(c.t.Context(), "", "", 0)
	if err != nil || len(page) == 0 {
		c.t.Fatal("nothing in the store: ", err)
	}
	for _, info := range page {
		if object, err := s.Get(c.t.Context(), info.Key); err != nil || bytes.Contains(object.Body, []byte(key)) || strings.Contains(info.Key, key) {
			c.t.Errorf("%s: %v %s", info.Key, err, object.Body)
		}
	}
}

// TestLogShowsNoKey: nor does a log of everything.
func TestLogShowsNoKey(t *testing.T) {
	s := Need(t, S3)
	const wrong = "hunter2hunter2"
	t.Setenv("AWS_SECRET_ACCESS_KEY", wrong)
	t.Setenv("AWS_SESSION_TOKEN", wrong)
	var log bytes.Buffer
	h, err := host.Open(t.Context(), s.Under(s.Address, hostilePrefix), &host.Options{
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Memory: "-",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.TryAcquire(t.Context(), "n", &host.AcquireOptions{Terms: host.Terms{Protocol: core.ProtocolStrict}})
	if err == nil || strings.Contains(err.Error(), wrong) || strings.Contains(fmt.Sprintf("%+v", err), wrong) {
		t.Errorf("error %v", err)
	}
	_ = h.Close(context.Background()) // which waits for who logs
	if text := log.String(); strings.Contains(text, wrong) || !strings.Contains(text, "request failed") {
		t.Errorf("log: %s", text)
	}
}
