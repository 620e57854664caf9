//go:build unix

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// secrets are the servers' keys, and where the environment has them.
var secrets = map[string]struct{ variable, right string }{
	S3:    {"AWS_SECRET_ACCESS_KEY", s3Secret},
	Azure: {"AZURE_STORAGE_KEY", azureKey},
}

// wrong is a wrong key. It is base64, as Azure's must be.
const wrong = "d3JvbmctaHVudGVyMi1rZXk="

// TestCommand: the built command takes each kind of claim on each server. The key, right or
// wrong, is in nothing that it prints, records, keeps or leaves in the store.
func TestCommand(t *testing.T) {
	command := filepath.Join(t.TempDir(), "mopslock-host")
	buildCommand(t, module, command)
	on(t, func(t *testing.T, s *Server, p *proxy.Proxy) {
		c := &commands{T: t, command: command, dir: t.TempDir(), url: s.Under(p.Address(), fresh("command"))}
		secret, entered := secrets[s.Kind]
		c.stories()
		if !entered {
			return // this server asks for no key
		}
		c.shows(secret.right)
		left := open(t, c.url)
		page, _, err := left.List(t.Context(), "", "", 0)
		if err != nil || len(page) == 0 {
			t.Fatal("nothing in the store: ", err)
		}
		for _, info := range page {
			if object, err := left.Get(t.Context(), info.Key); err != nil || strings.Contains(string(object.Body), secret.right) {
				t.Errorf("%s: %v %s", info.Key, err, object.Body)
			}
		}
		t.Setenv(secret.variable, wrong)
		for _, words := range []string{"run n -- true", "invoke n -- true", "permit n --capacity 1 --width 1 -- true", "status n", "ls"} {
			c.run(69, strings.Fields(words)...)
		}
		c.shows(wrong)
	})
}

// commands runs commands, and collects what they show.
type commands struct {
	*testing.T
	command, dir, url string
	shown             string
	number            int
}

// stories takes one claim of each kind, and ends it.
func (c *commands) stories() {
	lease := c.run(0, "acquire", "a", "--ttl", "2m", "--wait", "0")
	c.says("joined", c.run(0, "accompany", "--lease", lease, "--", "echo", "joined"))
	c.run(75, "run", "a", "--wait", "0", "--", "true")
	c.run(0, "release", lease)
	for _, protocol := range []string{"strict", "lastwriter"} {
		c.says("ran", c.run(0, "run", protocol, "--protocol", protocol, "--wait", "0", "--", "echo", "ran"))
	}
	c.says("let in", c.run(0, "permit", "p", "--capacity", "1", "--width", "1", "--", "echo", "let in"))
	launch := c.command + " remote i -- echo done"
	c.says("done", c.run(0, "invoke", "i", "--", "sh", "-c", launch))
	c.says("done", c.run(0, "invoke", "i", "--", "false")) // the result is there
	for _, name := range []string{`"a"`, `"strict"`, `"lastwriter"`, `"p"`, `"i"`} {
		c.says(name, c.run(0, "ls", "--json"))
	}
}

func (c *commands) says(want, out string) {
	c.Helper()
	if !strings.Contains(out, want) {
		c.Errorf("%q, want %q", out, want)
	}
}

func (c *commands) run(status int, words ...string) (stdout string) {
	c.Helper()
	c.number++
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command, append([]string{words[0], "--trace", filepath.Join(c.dir, fmt.Sprint("trace", c.number))}, words[1:]...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "MOPSLOCK_STORE="+c.url, "XDG_CACHE_HOME="+filepath.Join(c.dir, "cache"), "MOPSLOCK_LEASE=", "MOPSLOCK_HELD=")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		c.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		c.Errorf("%q ended with %d, want %d: %s", words, got, status, said.String())
	}
	c.shown += out.String() + said.String()
	return out.String()
}

// shows fails the test if a key is in what was shown, or in any file.
func (c *commands) shows(key string) {
	c.Helper()
	if strings.Contains(c.shown, key) {
		c.Errorf("shown: %s", c.shown)
	}
	traces := 0
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.HasPrefix(entry.Name(), "trace") {
			traces++
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(key)) {
			c.Errorf("%s: %s", path, content)
		}
		return err
	})
	if err != nil || traces != c.number {
		c.Errorf("%d recordings of %d commands, %v", traces, c.number, err)
	}
}
