//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree is every file of the scene that is outside of its store, with its content.
func (s *scene) tree() map[string]string {
	s.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && path == s.path("deep/store") {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, s.dir)] = string(body)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return found
}

// forgeStrict puts a version into the store as whoever may write there can.
func (s *scene) forgeStrict(tenure string) {
	s.Helper()
	id, err := json.Marshal(tenure)
	if err != nil {
		s.Fatal(err)
	}
	s.write("deep/store/n/_mopslock/fffffffffffffffe/v", fmt.Sprintf(`{"v": 1, "kind": "lease", "n": 1, "state": "held", "tenure": %s, "origin": 1, "owner": %[1]s, "owners": [%[1]s], `+
		`"nonce": "x", "ttl_s": 6, "margin_s": 0.6, "session": %[1]s, "alone": true, "boottime_ns": 0, "at": "2020-01-01T00:00:00.000000+00:00"}`, id))
}

// A lease's text is what somebody else has handed over, and the records that it leads
// to are anybody's: whatever ids and names stand there, nothing is made or changed
// outside of the store that the text names.
func TestHostileLease(t *testing.T) {
	if *engineFlag == "wasm" {
		t.Skip("once is enough: an engine makes no keys that the other does not")
	}
	odd := []string{"../../x", "..", "/etc/passwd", "a\x00b", "\x1b[2J", "%2e%2e%2fx", strings.Repeat("x", 600)}
	ids := map[string]func(lease map[string]any, value string){
		"name":   func(lease map[string]any, value string) { lease["name"] = value },
		"holder": func(lease map[string]any, value string) { lease["holder"] = value },
		"owner":  func(lease map[string]any, value string) { lease["owner"] = value },
		"both":   func(lease map[string]any, value string) { lease["holder"], lease["owner"] = value, value },
	}
	for field, set := range ids {
		for i, value := range odd {
			for _, protocol := range []string{"strict", "lastwriter"} {
				t.Run(fmt.Sprintf("%s/%d/%s", field, i, protocol), func(t *testing.T) {
					s := newScene(t)
					s.write("x/lock.json", "theirs")
					s.write("deep/x", "theirs")
					s.write("deep/x.d/lock.json", "theirs")
					s.forgeStrict(value)
					s.write("deep/store/n/lock.json", s.theirs("writer_id="+value))
					_ = os.RemoveAll(s.path("store"))
					lease := map[string]any{
						"name": "n", "store": "file://" + s.path("deep/store"), "protocol": protocol, "holder": "t", "epoch": 1, "token": 1, "ttl_s": 6,
						"first_acquired_at": "2020-01-01T00:00:00Z",
					}
					set(lease, value)
					text, err := json.Marshal(lease)
					if err != nil {
						t.Fatal(err)
					}
					before := s.tree()
					for _, words := range [][]string{
						{"renew", string(text)},
						{"release", string(text)},
						{"accompany", "--lease", string(text), "--", "true"},
						{"remote", "n", "--lease", string(text), "--", "true"},
					} {
						p := s.start(append([]string{"mopslock-host"}, words...)...)
						status := p.wait()
						if !slices.Contains([]int{0, statusUsage, statusUnavailable, statusLost, statusCannotKeep, statusUnfit}, status) {
							t.Errorf("%s: exit status %d: %s", words[0], status, p.err)
						}
						if shown := p.err.String(); strings.ContainsAny(shown, "\x1b\x00") || strings.Count(shown, "\n") > 4 {
							t.Errorf("%s shows it as it is: %q", words[0], shown)
						}
					}
					if after := s.tree(); !maps.Equal(before, after) {
						t.Errorf("outside of the store\n%q became\n%q", before, after)
					}
				})
			}
		}
	}
}
