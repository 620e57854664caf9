// Package memory keeps files of what a process saw of leases that others hold, for the next
// process of the same boot. It does not know what is in them: the core's client says what is
// to be kept, and is given it again. To lose any of it costs requests or time, never safety.
package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Memory is a directory of such files. Its methods may be called from any goroutine, and do
// I/O.
type Memory struct {
	dir  string
	url  string // of the store
	boot string // whose clock is in the files
	log  *slog.Logger
	now  func() core.Instant

	mu     sync.Mutex // over the files
	tidied bool
}

// life is the age at which a file is removed: no TTL is longer.
const life = core.MaxTTL

// Directory is where files are kept if nobody says otherwise; "" is nowhere.
func Directory() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "mopslock")
}

// New makes a Memory. It keeps nothing without a directory, a name of the store, and one of
// the boot by whose clock things are dated.
func New(dir, url, boot string, log *slog.Logger, now func() core.Instant) *Memory {
	return &Memory{dir: dir, url: url, boot: boot, log: log, now: now}
}

// Remembers reports whether anything is kept.
func (m *Memory) Remembers() bool { return m.dir != "" && m.boot != "" && m.url != "" }

// kept is a file.
type kept struct {
	Store string `json:"store"` // without its secrets, for people
	Name  string `json:"name"`
	Boot  string `json:"boot"`
	Seen  []byte `json:"seen"`
}

// File is where what was seen of a name is kept.
func (m *Memory) File(name string) string {
	sum := sha256.Sum256([]byte(m.url + "\x00" + name))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:16])+".json")
}

// Recall returns what an earlier process of this boot has kept under a name, or nil.
func (m *Memory) Recall(name string) []byte {
	if !m.Remembers() {
		return nil
	}
	body, err := os.ReadFile(m.File(name))
	if err != nil {
		return nil
	}
	var k kept
	if err := json.Unmarshal(body, &k); err != nil {
		m.log.Debug("an observation cannot be read", "name", name, "error", err)
		return nil
	}
	if k.Boot != m.boot || k.Name != name {
		return nil
	}
	return k.Seen
}

// Keep keeps what was seen of a name. nil forgets it.
func (m *Memory) Keep(name string, seen []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seen == nil {
		_ = os.Remove(m.File(name))
		return
	}
	if err := m.save(&kept{store.Redact(m.url), name, m.boot, seen}); err != nil {
		m.log.Debug("an observation was not kept", "name", name, "error", err)
	}
}

// save writes the file whole or not at all.
func (m *Memory) save(k *kept) error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	if !m.tidied {
		m.tidied = true
		m.tidy()
	}
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(m.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(append(body, '\n'))
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), m.File(k.Name))
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}

// tidy removes what no lease can be judged by any more.
func (m *Memory) tidy() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return
	}
	old := time.Unix(0, m.now().Wall).Add(-life)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.ModTime().Before(old) {
			_ = os.Remove(filepath.Join(m.dir, entry.Name()))
		}
	}
}
