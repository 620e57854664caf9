package keep

import (
	"context"
	"log/slog"
	"strings"
)

// teller passes log records on to the parent. Of what happens to claims and sessions the parent hears by
// notices, and says it itself; so only what is said in detail, and what is broken, is passed on.
type teller struct {
	store *kept
	with  []slog.Attr
}

// Enabled implements slog.Handler.
func (t *teller) Enabled(_ context.Context, level slog.Level) bool {
	return level < slog.LevelInfo || level >= slog.LevelError
}

// Handle implements slog.Handler.
func (t *teller) Handle(_ context.Context, r slog.Record) error {
	m := &said{Kind: "log", Level: strings.ToLower(r.Level.String()), Text: r.Message, Fields: map[string]any{}}
	add := func(a slog.Attr) bool {
		m.Fields[a.Key] = a.Value.Resolve().String()
		return true
	}
	for _, a := range t.with {
		add(a)
	}
	r.Attrs(add)
	t.store.say(m)
	return nil
}

// WithAttrs implements slog.Handler.
func (t *teller) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &teller{t.store, append(t.with[:len(t.with):len(t.with)], attrs...)}
}

// WithGroup implements slog.Handler. The Host has no groups.
func (t *teller) WithGroup(string) slog.Handler { return t }
