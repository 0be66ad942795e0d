package environmenttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/commands"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// stores is the directory in which sandboxes keep their files.
var stores string

func TestMain(m *testing.M) {
	sandbox.Init() // sandboxes are started by executing this program
	testenv.Parallel(8)
	os.Exit(testenv.RunWithStore(m, &stores))
}

// fakeOptions are those of the fake provider, which is quick and always available, but has only the
// features that tests of its users need.
func fakeOptions() Options {
	world := fake.NewWorld()
	return Options{
		New:    func(testing.TB) environment.Provider { return fake.New(fake.Options{World: world}) },
		Image:  testenv.Image,
		Vanish: func(_ testing.TB, id string) { world.Lose(id) },
		Lacks:  []string{suite.NetworkSetter, suite.TerminalRunner, suite.LoopbackListener, suite.MemoryReporter, suite.ProcessReporter, suite.ReadinessReporter, suite.BaseReporter, suite.ServiceProvider},
		Skip:   fakeSkips(),
	}
}

// fakeSkips returns the checks that the fake provider cannot pass. The mutants of these checks are
// sandboxes.
func fakeSkips() map[string]string {
	skip := map[string]string{}
	for _, lack := range fakeLacks {
		for _, name := range lack.checks {
			for _, c := range checks() {
				if matches(name, c.Name) {
					skip[c.Name] = lack.what
				}
			}
		}
	}
	return skip
}

// fakeLacks lists the checks, named as in broken.checks, that need features of which the fake
// provider has none.
var fakeLacks = []struct {
	what   string
	checks []string
}{
	{"it has no processes", []string{
		"values of variables are in no process's arguments", "exit code of a command that is *", "what an older process *",
		"a timeout kills a command that has *", "a timeout kills a command that keeps *", "a timeout kills a command that multiplies *",
		"a timeout kills a command of a user *", "a cancel kills a command *", "a timeout kills an orphan *", "a cancel kills an orphan *",
		"a timeout kills a chain *", "a cancel kills a chain *",
		"processes go on *", "an outcome has the files of one moment *", "a server outlives *", "a snapshot has no processes, *", "processes are limited", "servers on loopback are each environment's own",
	}},
	{"root is its only user", []string{
		"a command runs where and as whom it is told", "the mode of the destination *", "a user who is not root *", "a working directory that the image lacks *",
	}},
	{"it runs no ENTRYPOINT", []string{
		"an ENTRYPOINT *", "what an ENTRYPOINT *", "an environment outlives *", "stopping and destroying end *", "a snapshot has its image's ENTRYPOINT *",
		"a creation that is cancelled while an ENTRYPOINT *",
	}},
	{"it has few commands", []string{
		"the two output streams *", "a writer that blocks *", "what a command writes last *", commands.MemoryCheck, "a writer that fails *",
		"files arrive with *", "a file of 64 MiB *", "2,000 files *", "empty directories arrive", "a clean copy *", "a copy of nothing is fine", "files are there *",
		"a file that grows *", "pipes, devices and sockets *", "more files than the limit *", "more than 50,000 files *", "a sparse file *", "many files together *",
		"lists of omitted entries *", "a snapshot has the files *", "a kept environment is continued *", "all that a snapshot keeps *", "an outcome has the files of its moment, *", "an outcome is complete *", "an outcome has no values *", "an image has what *",
	}},
	{"its Dockerfiles know few instructions, and no .dockerignore", []string{"what .dockerignore names *", "build arguments *", "the directories of an image's VOLUME *", "a USER who is not in the image *"}},
	{"all its files are in memory", []string{"an outcome is refused that would *"}},
	{"it has any number of processors", []string{"limits that the machine does not have *"}},
}

// TestFakeConforms runs the suite on the fake provider.
func TestFakeConforms(t *testing.T) {
	for _, lack := range fakeLacks {
		matching(t, lack.checks) // reports names of no check
	}
	opts := fakeOptions()
	opts.Parallel = true
	Run(t, opts)
}

// sandboxOptions are those of sandboxes with this machine's root. It skips or fails the test where
// there are none.
func sandboxOptions(t *testing.T) Options {
	t.Helper()
	users, err := sandboxUsers()
	testenv.Check(t, sandbox.Name, err)
	hosts := &Hosts{}
	servers := hosts.NameServers(t)
	opts := Options{
		New: func(t testing.TB) environment.Provider {
			p, err := openSandboxes(sandbox.Options{Dial: hosts.Dial, NameServers: servers})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Image:         testenv.Image,
		Serve:         func(t testing.TB) string { return hosts.Outside(t) },
		ServeName:     func(t testing.TB) string { return hosts.OutsideByName(t) },
		Local:         func(t testing.TB) []string { return hosts.Machine(t) },
		NetworkClient: BashClient,
		Lacks:         []string{suite.ServiceProvider},
		Skip:          map[string]string{},
	}
	if !users {
		for _, name := range needUsers {
			opts.Skip[name] = "this user has one id: root is the only user in a sandbox"
		}
	}
	return opts
}

// needUsers are the checks that need users other than root.
var needUsers = []string{
	"a command runs where and as whom it is told", "a terminal belongs to the command's user", "the mode of the destination is as asked for", "a user who is not root can read copied files", "files arrive with the owners, modes, times and names that they had",
	"a working directory that the image lacks is made", "an ENTRYPOINT runs as the image's user", "a timeout kills a command of a user who is not root",
}

// openSandboxes opens the provider of all sandboxes of this package.
func openSandboxes(opts sandbox.Options) (environment.Provider, error) {
	return sandbox.New(context.Background(), map[string]any{"base": "host", "dir": filepath.Join(stores, "sandboxes")}, opts)
}

// sandboxUsers reports whether sandboxes have other users than root, or why there are no sandboxes.
var sandboxUsers = sync.OnceValues(func() (users bool, err error) {
	ctx := context.Background()
	p, err := openSandboxes(sandbox.Options{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	env, err := p.CreateEnvironment(ctx, environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Owner: environment.Self()}})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, env.Destroy(ctx)) }()
	var ids strings.Builder
	_, err = env.Exec(ctx, "while read -r _ _ n; do echo $n; done </proc/self/uid_map", environment.ExecOptions{Stdout: &ids})
	return ids.String() != "1\n", err
})
