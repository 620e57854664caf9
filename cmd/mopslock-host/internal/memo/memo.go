// Package memo reads and writes what --memo-failures keeps of failed work: a map of msgpack, which hosts
// in other languages also read and write.
//
// It does not decide which failure is kept.
package memo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/exit"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/host/store"
)

// Failure is what is kept of failed work, as the answer to every caller that asks for its result. Type and
// Text are what hosts in other languages keep of an exception.
type Failure struct {
	V      int    `msgpack:"v"`
	Status int    `msgpack:"status"` // 0: there was no exit status
	By     string `msgpack:"by"`     // what kept it
	At     string `msgpack:"at"`     // RFC 3339, by its clock
	Host   string `msgpack:"host"`
	Stderr []byte `msgpack:"stderr"` // the end of it

	Type string `msgpack:"type,omitempty"`
	Text string `msgpack:"text,omitempty"`
}

const (
	version  = 1
	maxBytes = 64 << 10 // bytes; a longer one is not read
)

// MaxStderr is how many bytes of stderr are kept.
const MaxStderr = 4 << 10

// New returns what is kept of a command's end.
func New(by string, status child.Status, stderr []byte, now time.Time) *Failure {
	name, _ := os.Hostname()
	return &Failure{
		V: version, Status: status.ExitStatus(), By: "mopslock-host " + by, Host: name, Stderr: stderr,
		At: now.UTC().Format(time.RFC3339),
	}
}

// Bytes is the failure as it is stored.
func (f *Failure) Bytes() ([]byte, error) { return msgpack.Marshal(f) }

// ErrNewer says that a newer mopslock kept the failure.
var ErrNewer = errors.New("it was kept by a newer mopslock; update this one")

// Read reads what anybody may have stored. Do not trust its texts.
func Read(body []byte) (*Failure, error) {
	f := new(Failure)
	decoder := msgpack.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(f); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	switch {
	case f.V > version:
		return nil, ErrNewer
	case f.V != version:
		return nil, fmt.Errorf("it cannot be read: v is %d", f.V)
	case f.Status < 0 || f.Status > exit.StatusMax:
		return nil, fmt.Errorf("it cannot be read: status is %d", f.Status)
	}
	if len(f.Stderr) > MaxStderr {
		f.Stderr = f.Stderr[len(f.Stderr)-MaxStderr:]
	}
	return f, nil
}

// ErrLarge says that no mopslock kept this: it is too long.
var ErrLarge = fmt.Errorf("it cannot be read: it has more than %d bytes", maxBytes)

// Body reads what was kept. ErrLarge is final; after another error the next try may
// succeed.
func Body(ctx context.Context, result *host.Result) ([]byte, error) {
	body, _, err := result.Open(ctx)
	if errors.Is(err, store.ErrTooLarge) {
		return nil, ErrLarge
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = ErrLarge
	}
	return text, err
}

// Describe says how another process's work failed, where and when.
func (f *Failure) Describe(name string) string {
	text := name + " has failed"
	if f.Status != 0 {
		text += fmt.Sprintf(" with exit status %d", f.Status)
	}
	if f.Host != "" {
		text += " on " + host.Printable(f.Host)
	}
	if f.At != "" {
		text += " at " + host.Printable(f.At)
	}
	if f.Type != "" || f.Text != "" {
		text += ": " + host.Printable(strings.Trim(f.Type+": "+f.Text, ": "))
	}
	return text + ", and that is kept (--memo-failures)"
}
