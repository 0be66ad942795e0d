package trial_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
)

// traces holds the observable actions of a trial.
type traces struct {
	calls      []string // of the environment, in order, with their variables
	listeners  int      // in the environment
	goroutines int      // the most of the package model, at any call
	files      []string // in the trial's directory
}

// traced runs a story on the fake provider, in environments that can listen.
func traced(t *testing.T, s story) traces {
	t.Helper()
	var mu sync.Mutex
	var got traces
	before := modelGoroutines()
	s.hooks = hooks{
		listen: func(ctx context.Context) (net.Listener, error) {
			mu.Lock()
			got.listeners++
			mu.Unlock()
			return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		},
		before: func(_ context.Context, c call) error {
			mu.Lock()
			defer mu.Unlock()
			got.goroutines = max(got.goroutines, modelGoroutines()-before)
			got.calls = append(got.calls, fmt.Sprintf("%s %s %q %q", c.op, c.script, pairs(c.create.Env), pairs(c.vars)))
			return nil
		},
	}
	o := fakePlace.run(t, s)
	o.check(t, want{reward: "1"})
	err := fs.WalkDir(os.DirFS(o.dir), ".", func(name string, _ fs.DirEntry, err error) error {
		got.files = append(got.files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func pairs(m map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, name+"="+m[name])
	}
	return out
}

// modelGoroutines returns the number of goroutines that run the package model or were started by
// it.
func modelGoroutines() int {
	text := make([]byte, 16<<20)
	text = text[:runtime.Stack(text, true)]
	n := 0
	for one := range strings.SplitSeq(string(text), "\n\n") {
		if strings.Contains(one, "rollout-action/internal/model/gateway.") {
			n++
		}
	}
	return n
}

// A trial whose agent has no model is the same whether its job has models or not: no additional
// listener, goroutine, file, variable or call. It is not parallel, because it looks at all
// goroutines.
func TestATrialWithoutAModelHasNothingOfTheGateway(t *testing.T) {
	s, upstream := modelStory(t, "echo working", agent.Budget{}, oneAnswer)
	with := traced(t, s)
	models := s.models
	s.agent.Model, s.models = "", nil
	plain := traced(t, s)
	s.models = models
	without := traced(t, s)

	if !slices.Equal(without.calls, plain.calls) || len(plain.calls) == 0 {
		t.Errorf("the calls are\n%s\nwithout models in the job\n%s", strings.Join(without.calls, "\n"), strings.Join(plain.calls, "\n"))
	}
	if !slices.Equal(without.files, plain.files) || len(plain.files) == 0 {
		t.Errorf("the files are %q, without models in the job %q", without.files, plain.files)
	}
	if without.listeners != 0 || without.goroutines != 0 {
		t.Errorf("there were %d listeners, and %d goroutines of the gateway", without.listeners, without.goroutines)
	}
	if len(upstream.keys) > 0 {
		t.Errorf("the model was asked %d times", len(upstream.keys))
	}
	// The same checks detect a gateway.
	if with.listeners != 1 || with.goroutines == 0 || slices.Equal(with.files, plain.files) || slices.Equal(with.calls, plain.calls) || !strings.Contains(strings.Join(with.calls, "\n"), "ROLLOUT_MODEL_URL=") {
		t.Errorf("with a model there are %d listeners, %d goroutines, the files %q and the calls\n%s", with.listeners, with.goroutines, with.files, strings.Join(with.calls, "\n"))
	}
}
