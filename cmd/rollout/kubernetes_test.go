//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/kubernetes"
)

// TestKubernetes tests the end of runs on a cluster. Its node is this machine, whose processes are
// checked.
func TestKubernetes(t *testing.T) {
	testenv.Registry(t)
	t.Setenv("KUBECONFIG", testenv.Kubeconfig(t))
	for _, tc := range []struct {
		name string
		test func(t *testing.T, provider string)
	}{
		{"a signal stops the job in order", func(t *testing.T, provider string) { stopInOrder(t, provider, os.Interrupt) }},
		{"a second signal stops it at once", stopAtOnce},
		{"environments go after stdout closes", cleanUpAfterStdoutCloses},
		{"rollout clean removes only what dead runs left", cleanDeadRuns},
		{"the next run removes what a killed one left", removeLeftovers},
		{"resume removes what a run on another machine left", removeLeftoversOfElsewhere},
		{"agents keep their time in an outage of the API server", outageOfTheServer},
		{"agents that fill their processes have failed", fillProcesses},
		{"tests run apart from services and steps", testApart},
		{"tests of steps run again", verifyStepsAgain},
		{"jobs that are killed again and again lose nothing", func(t *testing.T, provider string) {
			killAgainAndAgain(t, provider, testenv.Times(3, 20), 1)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, kubernetes.Name) })
	}
}

// removeLeftoversOfElsewhere kills a run in another process-id namespace. As on another machine, it
// is unknown whether the run lives; but a resume of its job can tell.
func removeLeftoversOfElsewhere(t *testing.T, provider string) {
	testenv.NeedRoot(t, "to make a namespace")
	j := steadyJob(t, provider, 1, "20")
	r := startWith(t, j.dir, "unshare", "--pid", "--fork", "--kill-child", program(provider), "run", "job.yaml")
	j.waitRunning(t, 1)
	must(t, r.cmd.Process.Kill()) // which kills the run, too
	r.exit(t)
	left := j.left(t)
	if left == 0 {
		t.Fatal("the killed run has left nothing")
	}
	other := hangingJob(t, provider, 1)
	if code := other.start(t, "job.yaml", "--set", "agents=[{name: nop}]").exit(t); code != 0 {
		t.Errorf("another job ends with %d", code)
	}
	j.wantLeft(t, left, "after another job")
	resumed := j.start(t, "resume", j.directory())
	resumed.exit(t) // one of its agents fails
	if said := resumed.output.String(); !strings.Contains(said, "left by a run that was killed") {
		t.Error("resume does not say what it removed")
	}
	if n := len(j.results(t)); n != 6 {
		t.Errorf("%d trials have a result", n)
	}
	j.wantLeft(t, 0, "of the killed run")
}

// testApart runs tests in new environments: those of a service whose state a process of the agent
// would change, and those of the last step of a task.
func testApart(t *testing.T, provider string) {
	j := hangingJob(t, provider, 1)
	must(t, os.RemoveAll(filepath.Join(j.dir, "evals/hang")))
	head := "version = \"1.0\"\nenvironment.docker_image = \"" + imageFor(provider) + "\"\n"
	for name, text := range map[string]string{
		"served/task.toml": head + `artifacts = [{source = "/data", service = "db"}]
[verifier]
environment_mode = "separate"
[[verifier.collect]]
service = "db"
command = "echo true >/data/state; before=$(stat -c %s /data/forged); sleep 0.5; [ $(stat -c %s /data/forged) = $before ]"
`,
		"served/environment/docker-compose.yaml": "services:\n  main: {volumes: [data:/data]}\n" +
			"  db: {image: \"" + imageFor(provider) + "\", command: [sleep, infinity], volumes: [data:/data]}\nvolumes: {data: }\n",
		"served/instruction.md": "Serve.\n",
		"served/tests/test.sh":  "[ \"$(cat /data/state)\" = true ] && [ -s /data/forged ] && echo 1 >/logs/verifier/reward.txt\n",
		"stepped/task.toml": head + "artifacts = [\"/srv/made\"]\n[[steps]]\nname = \"first\"\n" +
			"[[steps]]\nname = \"second\"\nverifier.environment_mode = \"separate\"\n",
		"stepped/steps/first/instruction.md":  "Begin.\n",
		"stepped/steps/first/tests/test.sh":   "touch /srv/tested; [ \"$(wc -l </srv/made)\" = 1 ] && echo 1 >/logs/verifier/reward.txt\n",
		"stepped/steps/second/instruction.md": "Go on.\n",
		"stepped/steps/second/tests/test.sh":  "[ ! -e /srv/tested ] && [ \"$(wc -l </srv/made)\" = 2 ] && echo 1 >/logs/verifier/reward.txt\n",
	} {
		path := filepath.Join(j.dir, "evals", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	code := j.start(t, "job.yaml", "--set", "agents.0.execute=echo working >>/srv/made; if [ -d /data ]; then "+
		"(setsid bash -c 'while echo x >>/data/forged; do echo false >/data/state; sleep 0.02; done' >/dev/null 2>&1 </dev/null &); "+
		"until [ -s /data/forged ]; do sleep 0.02; done; fi").exit(t)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	j.wantRewards(t, filepath.Join("jobs", j.name), 1)
	j.wantLeft(t, 0, "after the job")
}

// relayed returns the path of a kubeconfig through which connections to the API server pass a
// relay.
func relayed(t *testing.T) (string, *testenv.Relay) {
	t.Helper()
	text, err := os.ReadFile(testenv.Kubeconfig(t))
	must(t, err)
	var config map[string]any
	must(t, yaml.Unmarshal(text, &config))
	cluster := config["clusters"].([]any)[0].(map[string]any)["cluster"].(map[string]any)
	server, err := url.Parse(cluster["server"].(string))
	must(t, err)
	relay := testenv.NewRelay(t, server.Host)
	cluster["server"], cluster["tls-server-name"] = "https://"+relay.Addr().String(), server.Hostname()
	text, err = yaml.Marshal(config)
	must(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, text, 0o600))
	return path, relay
}

// outageOfTheServer interrupts the API server during a job, for longer than the timeout of agents.
// One of them ends in time meanwhile, another one never does.
func outageOfTheServer(t *testing.T, provider string) {
	const limit, outage = 20 * time.Second, 50 * time.Second
	j := hangingJob(t, provider, 1)
	must(t, os.WriteFile(filepath.Join(j.dir, "evals/hang/task.toml"), fmt.Appendf(nil,
		"version = \"1.0\"\n[agent]\ntimeout_sec = %g\n[environment]\ndocker_image = \"%s\"\n", limit.Seconds(), imageFor(provider)), 0o644))
	path, server := relayed(t)
	t.Setenv("KUBECONFIG", path)
	r := j.start(t, "job.yaml", "--set", "agents=[{name: ends, execute: echo working; sleep 5}, "+
		"{name: works, execute: echo working; while sleep 0.2; do date +%s >>/logs/agent/times; done}]")
	j.waitRunning(t, 2)
	server.Cut(true)
	time.Sleep(outage)
	server.Cut(false)
	r.exit(t)
	ends, works := j.trialOf(t, "ends"), j.trialOf(t, "works")
	if ends.Error != nil || ends.Reward == nil || *ends.Reward != 1 {
		t.Errorf("the agent that ended in its time: reward %v, %+v", ends.Reward, ends.Error)
	}
	if works.Error == nil || works.Error.Type != result.AgentExecutionTimeout {
		t.Errorf("the agent that did not end: %+v", works.Error)
	}
	files, err := filepath.Glob(filepath.Join(j.directory(), "works/evals/*/logs/agent/times"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("files with times: %q", files)
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	times := strings.Fields(string(text))
	first, err := strconv.ParseInt(times[0], 10, 64)
	must(t, err)
	last, err := strconv.ParseInt(times[len(times)-1], 10, 64)
	must(t, err)
	if worked := time.Duration(last-first) * time.Second; worked > (limit+outage)/2 {
		t.Errorf("it worked for %s, and may for %s", worked, limit)
	}
	j.wantLeft(t, 0, "after the job")
}

// fillProcesses runs agents that leave no room for the processes of the tests: the limit is the
// kubelet's, for all pods.
func fillProcesses(t *testing.T, provider string) {
	const most = 2000 // with a limit, fewer can be started
	fill := func(then string) string {
		return fmt.Sprintf(`perl -e 'for (my $n = 0; ; $n++) {
			my $child = $n < %d ? fork : undef;
			if (!defined $child) { open(my $full, ">", "/tmp/full"); print $full "$n\n"; close($full); %s; next }
			if (!$child) { sleep 3600; exit }
		}' >/dev/null 2>&1 & until [ -s /tmp/full ]; do read -rt 0.1 <&1; done; echo began $(</tmp/full)`, most, then)
	}
	j := hangingJob(t, provider, 1)
	must(t, os.WriteFile(filepath.Join(j.dir, "evals/hang/tests/test.sh"), []byte(`exec perl -e '
		my $refused;
		my @children = map { my $child = fork; $refused = 1 if !defined $child; if (defined $child && !$child) { sleep 3600; exit } $child } 1..16;
		kill "KILL", grep { defined } @children;
		exit 3 if $refused;
		open(my $reward, ">", "/logs/verifier/reward.txt");
		print $reward 1'`), 0o644))
	agents := map[string]string{"waits": fill("sleep 3600"), "fills": fill("select(undef, undef, undef, 0.01)"), "fair": "echo began 1"}
	var list []map[string]string
	for name, execute := range agents {
		list = append(list, map[string]string{"name": name, "execute": execute})
	}
	text, err := json.Marshal(list)
	must(t, err)
	j.start(t, "job.yaml", "--set", "agents="+string(text)).exit(t)
	for name := range agents {
		tr := j.trialOf(t, name)
		switch out := j.outputOf(t, name); {
		case strings.Contains(out, fmt.Sprintf("began %d", most)):
			testenv.Lacks(t, provider, "a limit of processes of pods")
		case name == "fair" && (tr.Error != nil || tr.Reward == nil || *tr.Reward != 1):
			t.Errorf("%s: reward %v, %+v", name, tr.Reward, tr.Error)
		case name != "fair" && (tr.Error == nil || tr.Error.Type != result.AgentExecutionFailed || !strings.Contains(tr.Error.Message, "the agent left")):
			t.Errorf("%s: reward %v, %+v, after %q", name, tr.Reward, tr.Error, out)
		}
	}
	j.wantLeft(t, 0, "after the job")
}

// outputOf returns the output of an agent in its only trial.
func (j job) outputOf(t *testing.T, agent string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.directory(), agent, "evals/*/command", result.StdoutFile))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("output of %s: %q", agent, files)
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	return string(text)
}

// trialOf returns the result of an agent's only trial.
func (j job) trialOf(t *testing.T, agent string) result.Trial {
	t.Helper()
	tree, err := result.ReadTree(j.directory())
	must(t, err)
	for _, tr := range tree.Trials {
		if tr.Key.Agent == agent {
			return tr
		}
	}
	t.Fatalf("agent %s has no result", agent)
	return result.Trial{}
}
