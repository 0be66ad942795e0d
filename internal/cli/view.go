package cli

import (
	"log/slog"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/ui"
)

// view returns how a running job is shown on stderr.
func (a *app) view(format string) (ui.Options, error) {
	mode, color, err := ui.DetectMode(a.Terminal, format, a.getenv)
	if err != nil {
		return ui.Options{}, usage("%w", err)
	}
	opts := ui.Options{Out: a.Stderr, Mode: mode, Color: color, Now: a.Now}
	if a.Terminal != nil {
		opts.Width = func() (int, int) {
			cols, rows, err := term.GetSize(int(a.Terminal.Fd()))
			if err != nil {
				return 80, 24
			}
			return cols, rows
		}
	}
	return opts, nil
}

// logLevel parses log_level, whose values config.Load has checked.
func logLevel(name string) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name))
	return level
}

func (a *app) getenv(name string) string {
	value, _ := a.Getenv(name)
	return value
}
