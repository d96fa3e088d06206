//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browserTimeout bounds everything that one test does in a browser.
const browserTimeout = 2 * time.Minute

// browser is a real Chromium with one tab.
type browser struct {
	context.Context

	mu     sync.Mutex
	errors []string // what the tab complained of
}

// startBrowser starts Chromium for one test. OMNI_CHROMIUM names another binary than the one of the Debian package.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv("OMNI_CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			t.Fatalf("%v: install the Debian package chromium, or name the binary in OMNI_CHROMIUM", err)
		}
	}
	timed, cancel := context.WithTimeout(t.Context(), browserTimeout)
	t.Cleanup(cancel)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("hide-scrollbars", true),
	}
	allocator, cancel := chromedp.NewExecAllocator(timed, options...)
	t.Cleanup(cancel)
	b := &browser{}
	b.Context, cancel = chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b.run(t, chromedp.Navigate("about:blank"))
	if err := chromedp.Listen(b.Context, b.hear); err != nil {
		t.Fatal(err)
	}
	command(t, b, log.Enable, cdp.Empty{})
	return b
}

// hear notes errors of scripts, of the console and of the network.
func (b *browser) hear(event any) {
	var complaint string
	switch e := event.(type) {
	case *cdpruntime.EventExceptionThrown:
		complaint = "exception: " + e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			complaint += " " + o.Description
		}
	case *cdpruntime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console.%s", e.Type)
		for _, argument := range e.Args {
			complaint += " " + string(argument.Value)
		}
	case *log.EventEntryAdded:
		complaint = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *page.EventJavascriptDialogOpening:
		complaint = "dialog: " + e.Message
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, complaint)
}

// demandQuiet demands that nothing was complained of since the last call.
func (b *browser) demandQuiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.errors {
		t.Errorf("browser: %s", complaint)
	}
	b.errors = nil
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.Context, actions...); err != nil {
		t.Fatal(err)
	}
}

// result runs an action that yields something.
func result[T any](t *testing.T, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	out, err := chromedp.Run(b.Context, action)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// command sends a command of the DevTools protocol.
func command[P, R any](t *testing.T, b *browser, c cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(b.Context, c, params); err != nil {
		t.Fatal(err)
	}
}

// eval evaluates JavaScript to a T.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	return result(t, b, chromedp.Evaluate[T](expression))
}

// awaitTrue awaits that a JavaScript expression becomes true.
func (b *browser) awaitTrue(t *testing.T, what, expression string) {
	t.Helper()
	poll := chromedp.Poll[bool](expression, chromedp.WithPollingInterval(pollInterval), chromedp.WithPollingTimeout(requestTimeout))
	if _, err := chromedp.Run(b.Context, poll); err != nil {
		t.Fatalf("no %s: %v; the page is\n%s", what, err, eval[string](t, b, "document.body.innerText"))
	}
}

// look is how a page is looked at.
type look struct {
	width, height int64
	scheme        string // light or dark
	motion        string // of prefers-reduced-motion
}

func (l look) String() string { return fmt.Sprintf("%s-%d", l.scheme, l.width) }

// as makes the browser look so from now on.
func (b *browser) as(t *testing.T, l look) {
	t.Helper()
	command(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: l.motion},
	}})
	command(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 600,
	})
}

// screenshot writes the whole page to a PNG among the test's artifacts, which `go test -artifacts` keeps.
func (b *browser) screenshot(t *testing.T, name string) {
	t.Helper()
	picture := result(t, b, chromedp.FullScreenshot(100))
	file := filepath.Join(t.ArtifactDir(), name+".png")
	if err := os.WriteFile(file, picture, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("picture in %s", file)
}

// axePath is the accessibility checker, which tools/install.sh gets if need be.
func axePath(t *testing.T) string {
	t.Helper()
	install := exec.CommandContext(t.Context(), filepath.Join("..", "..", "tools", "install.sh"), "axe")
	install.Stderr = t.Output()
	dir, err := install.Output()
	if err != nil {
		t.Fatalf("tools/install.sh axe: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "axe.min.js")
}

// demandAccessible runs axe-core over the page: WCAG 2.2 A and AA, and axe's own best practice.
func (b *browser) demandAccessible(t *testing.T, axe string) {
	t.Helper()
	script, err := os.ReadFile(axe)
	if err != nil {
		t.Fatal(err)
	}
	b.run(t, chromedp.Evaluate[chromedp.Void](string(script)))
	const run = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => JSON.stringify({
		passes: r.passes.length,
		violations: r.violations.map(v => ({rule: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)})),
	}))`
	report := result(t, b, chromedp.Evaluate[string](run, chromedp.EvalAwaitPromise))
	var found struct {
		Passes     int
		Violations []struct {
			Rule, Help string
			Nodes      []string
		}
	}
	if err := json.Unmarshal([]byte(report), &found); err != nil {
		t.Fatal(err)
	}
	if found.Passes < 15 {
		t.Errorf("only %d accessibility rules had something to look at", found.Passes)
	}
	for _, v := range found.Violations {
		t.Errorf("accessibility, %s: %s\n%s", v.Rule, v.Help, strings.Join(v.Nodes, "\n"))
	}
}
