// Package browsertest opens pages in a headless Chromium, for tests of the pages as users see them:
// what a page shows and executes, and which requests it makes.
package browsertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/org/rollout-action/internal/test/testenv"
)

// patience bounds one step of a test. It is generous because machines are busy; no test depends on
// it otherwise.
const patience = 2 * time.Minute

// networkChanged is the error of requests that Chromium ends because a network device of the
// machine has come or gone, such as those of other tests' containers. Tests repeat the failed step.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// Browser is a running Chromium.
type Browser struct {
	ctx context.Context
}

// Start starts a Chromium, which ends with the test. It skips the test if there is none, or fails
// it if ROLLOUT_TEST_REQUIRE names the browser.
func Start(t *testing.T) *Browser {
	t.Helper()
	var binary string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			binary = path
			break
		}
	}
	if binary == "" {
		testenv.Lacks(t, "browser", "Chromium")
	}
	// Chromium's sandbox does not work as root; the pages are those of tests.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(binary), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"))
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", binary, err)
	}
	return &Browser{ctx}
}

// Look describes the window and settings for a page.
type Look struct {
	Width    int     // in CSS pixels; 0 is 1400
	Height   int     // of the viewport; 0 is 1000
	Scale    float64 // device pixels per CSS pixel; 0 is 1
	Dark     bool
	NoScript bool // the browser runs no script
}

// Tab is an open page.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string
	faults   []string
}

// Open opens an address in a new tab and waits until it is loaded.
func (b *Browser) Open(t *testing.T, address string, look Look) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	tab := &Tab{t: t, ctx: ctx}
	if err := chromedp.Run(ctx); err != nil { // a tab ends with the context of its first action, so that must have no timeout
		t.Fatalf("open a tab: %v", err)
	}
	chromedp.ListenTarget(ctx, tab.hear)
	look.Width, look.Height, look.Scale = cmp.Or(look.Width, 1400), cmp.Or(look.Height, 1000), cmp.Or(look.Scale, 1)
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	tab.run("open "+address,
		network.Enable(), log.Enable(), runtime.Enable(), page.Enable(), performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks),
		emulation.SetDeviceMetricsOverride(int64(look.Width), int64(look.Height), look.Scale, look.Width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		emulation.SetScriptExecutionDisabled(look.NoScript),
	)
	tab.Visit(address)
	return tab
}

// hear records events of a page.
func (tab *Tab) hear(event any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			tab.requests = append(tab.requests, e.Request.URL)
		}
	case *log.EventEntryAdded: // such as violations of a Content-Security-Policy
		if strings.Contains(e.Entry.Text, networkChanged) {
			return
		}
		tab.faults = append(tab.faults, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		tab.faults = append(tab.faults, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		tab.faults = append(tab.faults, "console: "+string(e.Type))
	case *page.EventJavascriptDialogOpening:
		tab.faults = append(tab.faults, "dialog: "+e.Message)
		go func() { _ = chromedp.Run(tab.ctx, page.HandleJavaScriptDialog(true)) }()
	}
}

// Close closes the tab.
func (tab *Tab) Close() {
	tab.t.Helper()
	if err := chromedp.Cancel(tab.ctx); err != nil {
		tab.t.Fatalf("close the tab: %v", err)
	}
}

// Print prints the page and returns the PDF.
func (tab *Tab) Print() (pdf []byte) {
	tab.t.Helper()
	tab.run("print", chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().Do(ctx)
		return err
	}))
	return pdf
}

// Busy returns the processor time of the page's main thread, which draws and scrolls it, in
// milliseconds. It does not depend on the load of the machine.
func (tab *Tab) Busy() (ms float64) {
	tab.t.Helper()
	tab.run("ask what the page has done", chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			if m.Name == "TaskDuration" {
				ms = m.Value * 1000
			}
		}
		return err
	}))
	return ms
}

// Requests returns the addresses that the page has requested, including its own.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.requests)
}

// Faults returns undesired events of a page: exceptions, dialogs, messages on the console,
// violations of a policy.
func (tab *Tab) Faults() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.faults)
}

// run fails the test if an action fails or does not end.
func (tab *Tab) run(what string, actions ...chromedp.Action) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		tab.t.Fatalf("%s: %v", what, err)
	}
}

// Eval stores the value of a JavaScript expression in value, or fails the test. The page's policy
// does not apply to it.
func (tab *Tab) Eval(expression string, value any) {
	tab.t.Helper()
	tab.run("evaluate "+expression, chromedp.Evaluate(expression, value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// Text returns the value of an expression as text.
func (tab *Tab) Text(expression string) string {
	tab.t.Helper()
	var text string
	tab.Eval("String("+expression+")", &text)
	return text
}

// Wait waits until an expression is true, and fails the test if that never happens. Until then the
// expression may also fail, as on a page that is not loaded yet.
func (tab *Tab) Wait(expression string) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	var last error
	for ctx.Err() == nil { // chromedp's Poll needs scripts of the page
		var is bool
		if last = chromedp.Run(ctx, chromedp.Evaluate("Boolean("+expression+")", &is)); is {
			return
		}
		if at := ""; chromedp.Run(ctx, chromedp.Location(&at)) == nil && strings.HasPrefix(at, "chrome-error:") {
			_ = chromedp.Run(ctx, chromedp.Reload()) // see networkChanged; another error stays
		}
		time.Sleep(20 * time.Millisecond)
	}
	tab.t.Fatalf("it is never true that %s (%v)", expression, last)
}

// Click clicks the first element that matches a selector.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.run("click "+selector, chromedp.ScrollIntoView(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery))
}

// Type types text into the first element that matches a selector.
func (tab *Tab) Type(selector, text string) {
	tab.t.Helper()
	tab.run("type into "+selector, chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// Press presses keys, such as those of github.com/chromedp/chromedp/kb, at the focus.
func (tab *Tab) Press(keys string) {
	tab.t.Helper()
	tab.run("press keys", chromedp.KeyEvent(keys))
}

// Choose chooses an option of a select element, as a user does.
func (tab *Tab) Choose(selector, value string) {
	tab.t.Helper()
	tab.Eval(fmt.Sprintf(`(() => {
		const s = document.querySelector(%q);
		s.value = %q;
		s.dispatchEvent(new Event("input", {bubbles: true}));
		s.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, selector, value), nil)
}

// Visit opens another address in the tab.
func (tab *Tab) Visit(address string) {
	tab.t.Helper()
	tab.run("visit "+address, chromedp.ActionFunc(func(ctx context.Context) error {
		for {
			if err := chromedp.Navigate(address).Do(ctx); err == nil || !strings.Contains(err.Error(), networkChanged) {
				return err
			}
		}
	}))
}

// Address returns the address of the page, as its user sees it.
func (tab *Tab) Address() string {
	tab.t.Helper()
	var address string
	tab.run("read the address", chromedp.Location(&address))
	return address
}

// Picture saves a picture of the whole page as NAME.png in the directory that ROLLOUT_TEST_PICTURES
// names, for manual inspection.
func (tab *Tab) Picture(name string) {
	tab.t.Helper()
	tab.picture(name, func(to *[]byte) chromedp.Action { return chromedp.FullScreenshot(to, 100) })
}

// Screen saves a picture of the visible part of the page, as Picture does.
func (tab *Tab) Screen(name string) {
	tab.t.Helper()
	tab.picture(name, chromedp.CaptureScreenshot)
}

func (tab *Tab) picture(name string, take func(*[]byte) chromedp.Action) {
	tab.t.Helper()
	dir := os.Getenv("ROLLOUT_TEST_PICTURES")
	if dir == "" {
		return
	}
	var picture []byte
	tab.run("take a picture", take(&picture))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tab.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		tab.t.Fatal(err)
	}
}

// Violation is an accessibility rule that a page breaks, as axe-core reports it.
type Violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML    string
		Summary string `json:"failureSummary"`
	}
}

// Axe returns the problems that axe-core finds in the page. ROLLOUT_TEST_AXE names its script;
// without it, the test is skipped, or fails if the browser is required.
func (tab *Tab) Axe() []Violation {
	tab.t.Helper()
	file := os.Getenv("ROLLOUT_TEST_AXE")
	if file == "" {
		testenv.Lacks(tab.t, "browser", "axe-core: ROLLOUT_TEST_AXE does not name its script")
	}
	script, err := os.ReadFile(file)
	if err != nil {
		tab.t.Fatal(err)
	}
	tab.Eval(string(script)+"\n;0", nil)
	var text string
	tab.Eval(`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`, &text)
	var found []Violation
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		tab.t.Fatal(err)
	}
	return found
}

// File returns the URL of a file.
func File(path string) string {
	return (&url.URL{Scheme: "file", Path: path}).String()
}
