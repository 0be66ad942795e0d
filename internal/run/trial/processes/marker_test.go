package processes

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/org/rollout-action/internal/core/environment"
)

// bash is an environment whose only command is that of a marker.
type bash struct {
	environment.Environment
	silent bool          // it ends at once and runs nothing
	killed chan struct{} // closed when the marker's context ends it
	lost   error
}

func (b *bash) Exec(ctx context.Context, _ string, opts environment.ExecOptions) (int, error) {
	if b.silent {
		return 0, nil
	}
	if _, err := io.WriteString(opts.Stdout, "\n"); err != nil {
		return -1, err
	}
	line := make(chan struct{})
	go func() {
		defer close(line)
		_, _ = opts.Stdin.Read(make([]byte, 1))
	}()
	select {
	case <-ctx.Done():
		close(b.killed)
		return -1, errors.Join(b.lost, ctx.Err())
	case <-line:
		return 0, b.lost
	}
}

func TestMarkersEndWithAllProcessesOrAlone(t *testing.T) {
	for _, all := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			env := &bash{killed: make(chan struct{})}
			m, err := Start(t.Context(), env, environment.ExecOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if unknown, err := m.End(t.Context(), all); unknown || err != nil {
				t.Errorf("all processes: %v; unknown %v, %v", all, unknown, err)
			}
			killed := false
			select {
			case <-env.killed:
				killed = true
			default:
			}
			if killed != all {
				t.Errorf("all processes: %v; the context ended them: %v", all, killed)
			}
			if unknown, _ := m.End(t.Context(), true); !unknown {
				t.Error("a marker that had ended before can still end processes")
			}
		})
	}
}

func TestMarkersReportLostEnvironments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := &bash{killed: make(chan struct{}), lost: &environment.Error{Kind: environment.KindLost, Err: errors.New("it is gone")}}
		m, err := Start(t.Context(), env, environment.ExecOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.End(t.Context(), true); environment.KindOf(err) != environment.KindLost {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestMarkersNeedABashThatRunsThem(t *testing.T) {
	if _, err := Start(t.Context(), &bash{silent: true}, environment.ExecOptions{}); environment.KindOf(err) != environment.KindExec {
		t.Errorf("the error is %v", err)
	}
}
