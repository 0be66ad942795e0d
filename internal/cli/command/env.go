package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/ui"
	"github.com/org/rollout-action/providers"
	"github.com/org/rollout-action/reporters"
)

// Env is the outside world as the commands see it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) (string, bool)
	// Environ is every variable, as NAME=value. nil: they are not known.
	Environ func() []string
	Dir     string // the current directory; "" is the process's
	Now     func() time.Time
	// Terminal is stderr when it is one, else nil.
	Terminal *os.File
	// Progress: what takes longer than two seconds is shown on stderr, apart from running jobs,
	// which always are. Tests are without it, because what they print must not depend on how fast
	// the machine is.
	Progress bool
	// FreeDisk is how many bytes may still be written below a directory. nil: what the system says.
	FreeDisk func(dir string) (int64, error)
	// Patience multiplies the times that a cancelled job may take to end; 0 means 1. Tests of
	// outcomes rather than of timing set it high.
	Patience int
	// Providers are those that jobs can choose; nil: providers.All.
	Providers providers.Table
	// Reporters are the formats of reports; nil: reporters.All.
	Reporters reporters.Table
}

// Variable returns the value of a variable; "" if it is not set.
func (e Env) Variable(name string) string {
	value, _ := e.Getenv(name)
	return value
}

// Warnf prints a warning of one line on stderr.
func (e Env) Warnf(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "warning: %s\n", untrusted.Line(fmt.Sprintf(format, args...)))
}

// ClosedStdout reports whether err means that the reader of stdout has closed it.
func (e Env) ClosedStdout(err error) bool {
	file, ok := e.Stdout.(*os.File)
	failed, isPath := errors.AsType[*fs.PathError](err)
	return ok && isPath && failed.Path == file.Name() && errors.Is(failed, syscall.EPIPE)
}

// size returns the size of the terminal; nil: there is none.
func (e Env) size() func() (cols, rows int) {
	if e.Terminal == nil {
		return nil
	}
	return func() (cols, rows int) {
		cols, rows, err := term.GetSize(int(e.Terminal.Fd()))
		if err != nil {
			return 80, 24
		}
		return cols, rows
	}
}

// NewWorks returns a display of the progress of long operations on stderr.
func (e Env) NewWorks() *ui.Works {
	mode, _, _ := ui.DetectMode(e.Terminal, "", e.Variable) // auto always exists
	if !e.Progress {
		mode = ui.JSON
	}
	return ui.NewWorks(e.Stderr, mode, e.size())
}
