package fake

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// The interpreter runs background jobs, but gives them no process ids, and shows its own process's
// id in $$. So scripts are rewritten before they run:
//
//	$$, $BASHPID, $PPID and $! become variables that this package sets
//	"x &" becomes forkTemplate, which tells this package about the job's beginning and end
const (
	pidVar   = "__fake_pid"   // the process that runs this part of the script
	shellVar = "__fake_shell" // $$
	ppidVar  = "__fake_ppid"
	jobVar   = "__fake_job" // $!

	forkCommand = "__fake_fork" // announces a job, and sets jobVar
	exitCommand = "__fake_exit" // ends it
	bornCommand = "__fake_born" // tells what the interpreter calls it

	// The first argument of forkCommand is 1 if the job writes to the shell's output, the second 1 if it is
	// one simple command. A job has no input, and ends also when errexit ends it. The first thing that it
	// does is to become itself: the shell that started it may be dead by then.
	forkTemplate = `{ ` + forkCommand + ` %d %d; {
		` + pidVar + `=$` + jobVar + `
		trap '` + exitCommand + ` $?' EXIT
		( placeholder ); ` + exitCommand + ` $?
	} <&- & ` + bornCommand + ` $!; }`
)

var renamed = map[string]string{"$": shellVar, "BASHPID": pidVar, "PPID": ppidVar, "!": jobVar}

// rewrite changes f as described above and tells whether it did.
func rewrite(f *syntax.File) (changed bool, err error) {
	done := map[syntax.Node]bool{} // what comes from the template
	syntax.Walk(f, func(n syntax.Node) bool {
		if err != nil || done[n] {
			return err == nil && !isParam(n)
		}
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Coprocess {
				err = errors.New("coprocesses are not supported in the fake environment")
			} else if n.Background {
				changed = true
				err = background(n, done)
			}
		case *syntax.ParamExp:
			if n.Param != nil && renamed[n.Param.Value] != "" {
				changed = true
				n.Param = &syntax.Lit{Value: renamed[n.Param.Value]}
				n.Short = false
			}
		case *syntax.ProcSubst:
			err = errors.New("process substitution is not supported in the fake environment")
		case *syntax.UnaryTest:
			if n.Op == syntax.TsUsrOwn || n.Op == syntax.TsGrpOwn {
				err = fmt.Errorf("the test %s is not supported in the fake environment", n.Op)
			}
		}
		return err == nil
	})
	return changed, err
}

func isParam(n syntax.Node) bool {
	_, ok := n.(*syntax.ParamExp)
	return ok
}

// background replaces "x &" by the template.
func background(st *syntax.Stmt, done map[syntax.Node]bool) error {
	text := fmt.Sprintf(forkTemplate, digit(!redirected(st)), digit(isCall(st.Cmd)))
	f, err := read(text, "")
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

func isCall(c syntax.Command) bool {
	_, ok := c.(*syntax.CallExpr)
	return ok
}

// redirected tells whether both outputs of a statement go elsewhere.
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

func digit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// parsers are costly to make, compared with the scripts that they read.
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

// read reads a script. name is what $0 is to be.
func read(text, name string) (*syntax.File, error) {
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	return p.Parse(strings.NewReader(text), name)
}

// parse reads a script and rewrites it.
func parse(text, name string) (*syntax.File, error) {
	f, err := read(text, name)
	if err == nil {
		_, err = rewrite(f)
	}
	return f, err
}

// rewriteText is rewrite for the builtins that read scripts themselves. Text that needs no change, or
// is no script, is returned as it is.
func rewriteText(text string) string {
	f, err := read(text, "")
	if err != nil {
		return text
	}
	changed, err := rewrite(f)
	if err != nil {
		return "echo " + quote(err.Error()) + " >&2; false"
	}
	var b strings.Builder
	if !changed || syntax.NewPrinter().Print(&b, f) != nil {
		return text
	}
	return b.String()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
