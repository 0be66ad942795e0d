package browsertest_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli"
	"github.com/org/rollout-action/internal/test/browsertest"
	"github.com/org/rollout-action/internal/test/clitest"
)

// program is a running command of rollout, with the fake provider.
type program struct {
	cancel context.CancelFunc
	ended  chan int // gets the exit code

	mu     sync.Mutex
	output bytes.Buffer
}

// Write adds to the output.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// stop ends the command as Ctrl-C does, and returns its exit code.
func (p *program) stop() int {
	p.cancel()
	return <-p.ended
}

func start(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	soft, cancel := context.WithCancel(t.Context())
	p := &program{cancel: cancel, ended: make(chan int, 1)}
	go func() {
		p.ended <- cli.Main(soft, context.WithoutCancel(soft), cli.Env{
			Providers: clitest.Providers(), Stdin: strings.NewReader(""), Stdout: p, Stderr: p, Dir: dir, Now: time.Now,
			Getenv: func(string) (string, bool) { return "", false },
		}, args)
	}()
	t.Cleanup(func() {
		p.cancel()
		if t.Failed() {
			t.Logf("rollout %s:\n%s", strings.Join(args, " "), p.text())
		}
	})
	return p
}

// view starts rollout view and returns the address that it prints.
func view(t *testing.T, dir string, args ...string) (*program, string) {
	t.Helper()
	p := start(t, dir, append([]string{"view"}, args...)...)
	address := regexp.MustCompile(`http://\S+`)
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if found := address.FindString(p.text()); found != "" {
			return p, found
		}
	}
	t.Fatalf("rollout view prints no address:\n%s", p.text())
	return nil, ""
}

// files writes files below a new directory.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// twoTasks returns a directory with a job of two tasks: one that an agent solves at once, and one
// that it never ends.
func twoTasks(t *testing.T) string {
	return files(t, map[string]string{
		"job.yaml":                    "name: two\nenvironment: {type: fake}\nn_concurrent_trials: 2\ndatasets: [{path: evals}]\nagents:\n  - name: helper\n    execute: |\n      cat \"$ROLLOUT_TASK_INSTRUCTION\"\n      case \"$(cat \"$ROLLOUT_TASK_INSTRUCTION\")\" in *wait*) sleep 3000;; esac\n",
		"evals/long/task.toml":        "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"evals/long/instruction.md":   "Please wait.\n",
		"evals/long/tests/test.sh":    "echo 1 >/logs/verifier/reward.txt\n",
		"evals/short/task.toml":       "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n",
		"evals/short/instruction.md":  "Greet <b>me</b>.\n",
		"evals/short/tests/test.sh":   "echo checked; echo 1 >/logs/verifier/reward.txt\n",
		"evals/short/solution/run.sh": "true\n",
	})
}

// below fails the test if the tab has requested any other server than that of the address, or if
// the page has faults.
func below(t *testing.T, tab *browsertest.Tab, address string) {
	t.Helper()
	for _, asked := range tab.Requests() {
		if !strings.HasPrefix(asked, address) {
			t.Errorf("the page has asked for %s", asked)
		}
	}
	for _, fault := range tab.Faults() {
		t.Errorf("the page has a fault: %s", fault)
	}
}

// A job that starts while its directory is viewed appears by itself, its trials as they end, and
// then its end.
func TestJobAppearsLive(t *testing.T) {
	browser := browsertest.Start(t)
	dir := twoTasks(t)
	if err := os.Mkdir(filepath.Join(dir, "jobs"), 0o755); err != nil {
		t.Fatal(err)
	}
	server, address := view(t, dir)
	tab := browser.Open(t, address, browsertest.Look{})
	body := "document.body.textContent"
	if got := tab.Text(body + `.includes("running")`); got != "false" {
		t.Fatalf("a job is running before it has started:\n%s", tab.Text(body))
	}

	job := start(t, dir, "run", "job.yaml")
	tab.Wait(`document.querySelector("#rows .running, #jobs ~ * .running, table .running") !== null`)
	tab.Picture("view-index-running")
	tab.Click(`table a[href*="two"]`)
	tab.Wait(`[...document.querySelectorAll("#rows tbody tr")].some((r) => r.textContent.includes("short") && r.textContent.includes("passed"))`)
	if got := tab.Text(`document.querySelector("h1").textContent`); got != "⏳ Running: 1 of 2 trials has a result" {
		t.Errorf("the page of a running job is headed %q", got)
	}
	tab.Picture("view-job-running")
	if code := job.stop(); code != 130 {
		t.Errorf("the job ended with %d", code)
	}
	tab.Wait(body + `.includes("incomplete") || ` + body + `.includes("cancelled")`)

	tab.Click(`#rows a[href*="short"]`)
	tab.Wait(`document.querySelector("h1").textContent.includes("short")`)
	tab.Wait(body + `.includes("Greet <b>me</b>.")`)
	below(t, tab, address)
	if code := server.stop(); code != 130 {
		t.Errorf("the server ended with %d", code)
	}
}

// The pages of the server are as accessible as the file, and can be used without scripts.
func TestViewIsAccessible(t *testing.T) {
	browser := browsertest.Start(t)
	dir := twoTasks(t)
	if code := <-start(t, dir, "run", "job.yaml", "--task", "short").ended; code != 0 {
		t.Fatalf("the job ended with %d", code)
	}
	_, address := view(t, dir)
	for name, look := range views {
		t.Run(name, func(t *testing.T) {
			tab := browser.Open(t, address, look)
			for _, step := range []string{"index", "job", "trial"} {
				tab.Picture("view-" + step + "-" + name)
				tab.Eval(`document.querySelectorAll("details").forEach((d) => { d.open = true; })`, nil)
				accessible(t, tab)
				if step != "trial" {
					next := tab.Text(`document.querySelector("table tbody a").href`)
					tab.Visit(next)
				}
			}
			below(t, tab, address)
		})
	}
	tab := browser.Open(t, address, browsertest.Look{NoScript: true})
	tab.Click("table tbody a")
	tab.Wait(`document.querySelector("#rows") !== null`)
	tab.Click("#rows tbody a")
	tab.Wait(`document.querySelector("h1").textContent.includes("short")`)
	below(t, tab, address)
}

// The index of jobs can be searched, filtered and sorted, and the address keeps it.
func TestIndexIsFilteredAndTheAddressKeepsIt(t *testing.T) {
	browser := browsertest.Start(t)
	dir := twoTasks(t)
	for _, name := range []string{"beta", "alpha"} { // the newest is above
		if code := <-start(t, dir, "run", "job.yaml", "--task", "short", "--name", name).ended; code != 0 {
			t.Fatalf("the job ended with %d", code)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "jobs", "torn"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "jobs", "torn", "plan.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, address := view(t, dir)
	tab := browser.Open(t, address, browsertest.Look{})
	sees := func(tab *browsertest.Tab, want string) {
		t.Helper()
		if got := tab.Text(rows); got != want {
			t.Errorf("%s shows %q, want %q", tab.Address(), got, want)
		}
	}
	tab.Wait(rows + `.split(" ").length === 3`)
	tab.Type(`#filter input[name="q"]`, "alph")
	sees(tab, "alpha")
	if got := tab.Address(); got != address+"#?q=alph" {
		t.Errorf("the address is %s after a search", got)
	}
	sees(browser.Open(t, tab.Address(), browsertest.Look{}), "alpha")
	tab.Eval(`document.querySelector("#filter input").value = ""`, nil)

	tab.Choose(`#filter select[name="state"]`, "unreadable")
	sees(tab, "torn")
	tab.Choose(`#filter select[name="state"]`, "done")
	tab.Click("#rows thead th:nth-child(1) button")
	sees(tab, "alpha beta")
	tab.Click("#rows thead th:nth-child(1) button")
	sees(tab, "beta alpha")
	if got := tab.Address(); got != address+"#?state=done&sort=-1" {
		t.Errorf("the address is %s", got)
	}
	other := browser.Open(t, tab.Address(), browsertest.Look{})
	sees(other, "beta alpha")
	if got := other.Text(`document.querySelector("#filter output").textContent`); got != "2 of 3" {
		t.Errorf("the filter says that it shows %s", got)
	}
	below(t, tab, address)
}

// Files of a trial are shown or downloaded, and never executed at the server's address.
func TestFilesOfTrialsAreNotExecuted(t *testing.T) {
	browser := browsertest.Start(t)
	dir := twoTasks(t)
	if code := <-start(t, dir, "run", "job.yaml", "--task", "short").ended; code != 0 {
		t.Fatalf("the job ended with %d", code)
	}
	trial := filepath.Join(dir, "jobs/two/helper/evals/short__1")
	attack := `<!doctype html><svg xmlns="http://www.w3.org/2000/svg" onload="alert('pwned')"></svg><script>alert("pwned")</script>`
	for _, name := range []string{"logs/agent/page.html", "logs/agent/picture.svg", "logs/agent/text.txt", "logs/agent/data.xml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(trial, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(trial, name), []byte(attack), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, address := view(t, dir)
	tab := browser.Open(t, address+"job/two/t/helper/evals/short__1/", browsertest.Look{})
	var links []string
	tab.Eval(`[...document.querySelectorAll("a[href]")].filter((a) => a.href.includes("logs/agent")).map((a) => a.href)`, &links)
	if len(links) < 4 {
		t.Fatalf("the trial's page links to %q", links)
	}
	for _, link := range links {
		if strings.Contains(link, "/log/") {
			other := browser.Open(t, link, browsertest.Look{})
			other.Wait(`document.querySelector("#log").textContent.includes("alert(")`)
			below(t, other, address)
			continue
		}
		answer, err := http.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		kind, how, policy := answer.Header.Get("Content-Type"), answer.Header.Get("Content-Disposition"), answer.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(how, "attachment") || !strings.Contains(policy, "sandbox") || answer.Header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(kind, "html") || strings.Contains(kind, "svg") || strings.Contains(kind, "xml") {
			t.Errorf("%s comes as %q, %q, %q", link, kind, how, policy)
		}
	}
}
