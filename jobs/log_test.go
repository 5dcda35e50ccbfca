package jobs

import (
	"context"
	"fmt"
	"log/slog"
)

// announcements gives a logger that gathers what is said of catching up.
func announcements(to *[]string) *slog.Logger { return slog.New(&gatherer{to}) }

type gatherer struct{ to *[]string }

func (*gatherer) Enabled(context.Context, slog.Level) bool { return true }

func (g *gatherer) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "catching up" {
		return nil
	}
	text := ""
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("%s=%v ", a.Key, a.Value)
		return true
	})
	*g.to = append(*g.to, text)
	return nil
}

func (g *gatherer) WithAttrs([]slog.Attr) slog.Handler { return g }

func (g *gatherer) WithGroup(string) slog.Handler { return g }
