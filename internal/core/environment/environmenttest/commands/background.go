package commands

import (
	"sync/atomic"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// backgroundChecks check processes that a command leaves running when it exits.
func backgroundChecks() []suite.Check {
	list := []suite.Check{
		{Name: "a background process that holds the output open does not hold up its command", Run: checkHeldOutput},
		{Name: "a background process may write to the output of a command that has ended", Run: checkLateOutput},
		{Name: "output of background processes before the exit arrives", Run: checkBackgroundOutput},
	}
	for _, server := range servers {
		list = append(list, suite.Check{Name: "a server outlives the command that started it: " + server.name, Run: func(s *suite.Scene) {
			checkServer(s, server.script, server.code)
		}})
	}
	return list
}

// servers append to /k/server.
var servers = []struct {
	name, script string
	code         int
}{
	{"in the background", "bash /k/tick.sh server >/dev/null 2>&1 &", 0},
	{"holding the output", "bash /k/tick.sh server &", 0},
	{"detached", "setsid nohup bash /k/tick.sh server >/dev/null 2>&1 </dev/null &", 0},
	{"as an orphan", "(bash /k/tick.sh server >/dev/null 2>&1 &)", 0},
	{"when the command fails", "bash /k/tick.sh server >/dev/null 2>&1 & exit 3", 3},
}

func checkServer(s *suite.Scene, script string, code int) {
	env := s.Create(func(o *environment.CreateOptions) { o.Files = []environment.Copy{s.Tools()} })
	o := env.Do(s.Ctx, script, environment.ExecOptions{})
	if o.Err != nil || o.Code != code {
		s.Fatalf("exit code %d, error %v; want %d", o.Code, o.Err, code)
	}
	s.Equal("the server", env.Run(". /k/lib.sh; grown server 20; alive $(cat /k/server.pid) || echo dead"), "")
	s.Equal("one command later", env.Run(". /k/lib.sh; grown server 20"), "")
}

func checkHeldOutput(s *suite.Scene) {
	env := s.Create()
	// Longer than Options.patience: the check fails when Exec waits for it.
	s.Equal("output", env.Run("sleep 3600 & echo end"), "end\n")
	s.Equal("output", env.Run("(sleep 3600; echo late) 2>/dev/null & echo end"), "end\n")
}

// afterReturn counts writes after Exec has returned, which must not happen.
type afterReturn struct {
	suite.Buffer
	returned atomic.Bool
	late     atomic.Int64
}

func (w *afterReturn) Write(p []byte) (int, error) {
	if w.returned.Load() {
		w.late.Add(1)
	}
	return w.Buffer.Write(p)
}

// checkLateOutput writes more than a pipe holds (64 KiB) after the command has ended: the process
// must neither die nor wait for a reader. It does not write much more, because an engine may stop
// reading some time after the command's exit, and then only buffers what comes; with more output,
// the check would depend on who is faster.
func checkLateOutput(s *suite.Scene) {
	env := s.Create(func(o *environment.CreateOptions) { o.Files = []environment.Copy{s.Tools()} })
	var stdout afterReturn
	env.RunWith(`line=$(head -c 1023 /dev/zero | tr '\0' x)
		(until [ -e /k/go ]; do sleep 0.01; done
		i=0; while [ $i -lt 96 ]; do i=$((i+1)); echo $line; done
		echo x >> /k/end) &
		echo started`, environment.ExecOptions{Stdout: &stdout})
	stdout.returned.Store(true)
	s.Equal("output", stdout.String(), "started\n")
	s.Equal("the late writer", env.Run(". /k/lib.sh; touch /k/go; reached end 2"), "")
	if n := stdout.late.Load(); n > 0 {
		s.Errorf("%d writes to Stdout after Exec had returned", n)
	}
}

func checkBackgroundOutput(s *suite.Scene) {
	s.Equal("output", s.Create().Run("(echo one) & wait; (echo two; touch /tmp/two) & until [ -e /tmp/two ]; do sleep 0.01; done"),
		"one\ntwo\n")
}
