package console

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mopslock/mopslock/host"
)

// logHandler prints the warnings of a host.
type logHandler struct {
	console *Console
	attrs   []slog.Attr
}

func (l *logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (l *logHandler) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case host.MessageLeaseLost, host.MessagePermitLost, host.MessageContactLost, host.MessageLeftToExpire:
		return nil // the command says so itself, and what follows
	}
	var text strings.Builder
	text.WriteString(r.Message)
	show := func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%s", a.Key, host.Printable(a.Value.String()))
		return true
	}
	for _, a := range l.attrs {
		show(a)
	}
	r.Attrs(show)
	l.console.Printf("warning: %s", text.String())
	return nil
}

// WithAttrs leaves out the store: a command has only one.
func (l *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := append([]slog.Attr(nil), l.attrs...)
	for _, attr := range attrs {
		if attr.Key != "store" {
			with = append(with, attr)
		}
	}
	return &logHandler{console: l.console, attrs: with}
}

func (l *logHandler) WithGroup(string) slog.Handler { return l }
