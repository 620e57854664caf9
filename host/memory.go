package host

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

// memory is what a Host remembers of names that it does not hold: for itself, of names that
// it released; for the next process, of names that others hold. To lose any of it costs
// requests or time, never safety.
type memory struct {
	dir   string // "" is none
	boot  string // whose clock Mono is; "" where that is of no use, or has no name
	url   string // of the store
	log   *slog.Logger
	now   func() core.Instant
	write func(func()) // runs what changes files, beside the loop

	mu     sync.Mutex
	names  map[string]last
	kept   map[string]uint64 // by name, the fingerprint that its file has
	tidied bool
	saving sync.Mutex // over the files
}

// last is how this process released a name. Its next claim knows the newest version
// from that, and does not look.
type last struct {
	epoch  core.Epoch
	at     int64 // Mono
	looked int64 // Mono: no old client had a record then
}

// maxNames bounds what is remembered.
const maxNames = 16_384

// memoryLife is the age at which a file of an observation is removed: no TTL is longer.
const memoryLife = core.MaxTTL

func newMemory(dir, url string) *memory {
	m := &memory{url: url, names: map[string]last{}, kept: map[string]uint64{}}
	switch dir {
	case "-":
	case "":
		if cache, err := os.UserCacheDir(); err == nil {
			m.dir = filepath.Join(cache, "mopslock")
		}
	default:
		m.dir = dir
	}
	return m
}

// released remembers a release that frees the name at once. looked is when no old client
// had a record, or 0.
func (m *memory) released(name string, looked int64, a *core.Action) {
	if a.At == 0 || a.Epoch == 0 || looked == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.names) >= maxNames {
		for old := range m.names { // any
			delete(m.names, old)
			break
		}
	}
	m.names[name] = last{a.Epoch, a.At, looked}
}

// last takes what is remembered of a name: its release, which spares the core a look
// while it is young, and the latest look for an old client's record, which is repeated
// now and then, however often the name is acquired again.
func (m *memory) last(name string) last {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.names[name]
	delete(m.names, name)
	return found
}

// observation is a file: what a process saw of a name that another holds.
type observation struct {
	Store string `json:"store"` // without its secrets, for people
	Name  string `json:"name"`
	Epoch uint64 `json:"epoch"`
	Print uint64 `json:"print,string"`
	Since int64  `json:"since_ns"` // by the boot's clock
	Wall  int64  `json:"wall_ns"`  // by the wall clock; 0 in files of older versions
	Boot  string `json:"boot"`
}

// remembers reports whether observations can be of use to another process: they
// are by the clock of a boot, and of a store that has a name.
func (m *memory) remembers() bool { return m.dir != "" && m.boot != "" && m.url != "" }

func (m *memory) file(name string) string {
	sum := sha256.Sum256([]byte(m.url + "\x00" + name))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:16])+".json")
}

// observed is what an earlier process saw: a fingerprint of all beats, and since when it
// stood unchanged. 0 is nothing, as for another boot, or one that only has the name of ours
// (core.Instant.Emitted).
func (m *memory) observed(name string) (print uint64, since int64) {
	if !m.remembers() {
		return 0, 0
	}
	body, err := os.ReadFile(m.file(name))
	if err != nil {
		return 0, 0
	}
	var o observation
	if err := json.Unmarshal(body, &o); err != nil {
		m.log.Debug("an observation cannot be read", "name", name, "error", err)
		return 0, 0
	}
	since, ok := m.now().Emitted(o.Since, o.Wall)
	if !ok || o.Boot != m.boot || o.Name != name {
		return 0, 0
	}
	m.mu.Lock()
	m.kept[name] = o.Print
	m.mu.Unlock()
	return o.Print, since
}

// saw keeps what a waiter or a refused attempt saw, if it is news.
func (m *memory) saw(name string, protocol core.Protocol, s *core.Observed) {
	if s == nil || s.Fingerprint == 0 || protocol != core.ProtocolStrict || !m.remembers() {
		return
	}
	m.mu.Lock()
	known := m.kept[name] == s.Fingerprint
	if !known && len(m.kept) < maxNames {
		m.kept[name] = s.Fingerprint
	}
	tidy := !m.tidied
	m.tidied = true
	m.mu.Unlock()
	if known {
		return
	}
	now := m.now()
	o := observation{store.Redact(m.url), name, uint64(s.Epoch), s.Fingerprint, s.Since, s.Since + now.Wall - now.Mono, m.boot}
	m.write(func() {
		m.saving.Lock()
		defer m.saving.Unlock()
		if err := m.save(&o, tidy); err != nil {
			m.log.Debug("an observation was not kept", "name", o.Name, "error", err)
		}
	})
}

// save writes the file whole or not at all.
func (m *memory) save(o *observation, tidy bool) error {
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	if tidy {
		m.tidy()
	}
	body, err := json.Marshal(o)
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
		err = os.Rename(temp.Name(), m.file(o.Name))
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}

// tidy removes what no lease can be judged by any more.
func (m *memory) tidy() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > memoryLife {
			_ = os.Remove(filepath.Join(m.dir, entry.Name()))
		}
	}
}

// forget removes what was seen of a name that is now held by us.
func (m *memory) forget(name string) {
	m.mu.Lock()
	_, kept := m.kept[name]
	delete(m.kept, name)
	m.mu.Unlock()
	if kept {
		m.write(func() {
			m.saving.Lock()
			defer m.saving.Unlock()
			_ = os.Remove(m.file(name))
		})
	}
}
