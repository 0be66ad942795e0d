package fake

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// The interpreter gives jobs no process ids, and $$ is its own process. So scripts are rewritten before they run:
//
//	$$, $BASHPID, $PPID and $! become variables that this package sets
//	"x &" becomes forkTemplate, which tells this package when the job begins and ends
const (
	pidVar   = "__fake_pid"   // the process that runs this part of the script
	shellVar = "__fake_shell" // $$
	ppidVar  = "__fake_ppid"
	jobVar   = "__fake_job" // $!

	forkCommand = "__fake_fork" // announces a job, and sets jobVar
	exitCommand = "__fake_exit" // ends it
	bornCommand = "__fake_born" // has the interpreter's name of it

	// forkCommand has whether the job writes to the shell's output, and whether it is one simple command. A job has no
	// input, and also ends when errexit ends it. First it becomes itself: the shell that started it may be dead by then.
	forkTemplate = `{ ` + forkCommand + ` %t %t; {
		` + pidVar + `=$` + jobVar + `
		trap '` + exitCommand + ` $?' EXIT
		( placeholder ); ` + exitCommand + ` $?
	} <&- & ` + bornCommand + ` $!; }`
)

var renamed = map[string]string{"$": shellVar, "BASHPID": pidVar, "PPID": ppidVar, "!": jobVar}

// rewrite changes f as described above.
func rewrite(f *syntax.File) (err error) {
	done := map[syntax.Node]bool{} // what comes from the template
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Background && !done[n] {
				err = cmp.Or(err, background(n, done))
			}
		case *syntax.ParamExp:
			if n.Param != nil && renamed[n.Param.Value] != "" && !done[n] {
				n.Param, n.Short = &syntax.Lit{Value: renamed[n.Param.Value]}, false
			}
		case *syntax.ProcSubst, *syntax.CoprocClause:
			err = errors.New("the fake environment knows neither process substitutions nor coprocesses")
		}
		return err == nil
	})
	return err
}

// background replaces "x &" by the template.
func background(st *syntax.Stmt, done map[syntax.Node]bool) error {
	_, isCall := st.Cmd.(*syntax.CallExpr)
	text := fmt.Sprintf(forkTemplate, !redirected(st), isCall)
	f, err := parse(text, "")
	if err != nil {
		return err
	}
	job := &syntax.Stmt{Cmd: st.Cmd, Redirs: st.Redirs, Negated: st.Negated, Position: st.Position}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			done[n] = n.Background
		case *syntax.ParamExp:
			done[n] = true
		case *syntax.Subshell:
			n.Stmts = []*syntax.Stmt{job}
			return false
		}
		return true
	})
	*st = syntax.Stmt{Cmd: f.Stmts[0].Cmd, Position: st.Position}
	return nil
}

// redirected reports whether both outputs of a statement go elsewhere.
func redirected(st *syntax.Stmt) bool {
	var out, err bool
	for _, r := range st.Redirs {
		switch {
		case r.Op == syntax.RdrAll || r.Op == syntax.AppAll:
			out, err = true, true
		case r.Op != syntax.RdrOut && r.Op != syntax.AppOut && r.Op != syntax.DplOut:
		case r.N != nil && r.N.Value == "2":
			err = r.Op != syntax.DplOut || out
		default:
			out = r.Op != syntax.DplOut || err
		}
	}
	return out && err
}

// parsers take longer to make than scripts to read.
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

// parse parses a script, whose $0 is name.
func parse(text, name string) (*syntax.File, error) {
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	return p.Parse(strings.NewReader(text), name)
}

// rewriteText is rewrite for the builtins that read scripts. It returns what is no script as it is.
func rewriteText(text string) string {
	f, err := parse(text, "")
	if err != nil {
		return text
	}
	var b strings.Builder
	if err := cmp.Or(rewrite(f), syntax.NewPrinter().Print(&b, f)); err != nil {
		return "echo " + quoted([]string{err.Error()}) + " >&2; false"
	}
	return b.String()
}
