package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium with one page, driven by the DevTools protocol
// over its pipe: messages of JSON, each ended by a zero byte.
type browser struct {
	t       *testing.T
	cmd     *exec.Cmd
	to      io.WriteCloser
	session string

	mu     sync.Mutex
	last   int
	wait   map[int]chan answer
	loads  int
	faults []string // what pages wrote to the console, and errors of their scripts
}

// answer is a message of the browser: to a call, or an event.
type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser runs Chromium until the test ends; without it the test is skipped.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "chromium")
	}
	hears, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "sawlog-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, to: to, wait: map[int]chan answer{}}
	b.cmd = exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir="+profile, "about:blank")
	b.cmd.Env = append(os.Environ(), "TZ=Europe/Berlin", "LANG=en_GB.UTF-8")
	b.cmd.ExtraFiles = []*os.File{hears, says}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has many children
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = hears.Close(), says.Close() // the browser has its own
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.read(bufio.NewReader(from))
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
		_ = b.cmd.Wait()
		<-ended
		_, _ = to.Close(), from.Close()
		_ = os.RemoveAll(profile) // what a child still writes is left for the machine to sweep
	})
	b.attach()
	return b
}

// attach opens the page.
func (b *browser) attach() {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.size(1280, 900, false)
}

// read takes in what the browser says, to its end.
func (b *browser) read(from *bufio.Reader) {
	for {
		text, err := from.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for id, ch := range b.wait {
				close(ch)
				delete(b.wait, id)
			}
			b.mu.Unlock()
			return
		}
		var a answer
		if err := json.Unmarshal(text[:len(text)-1], &a); err != nil {
			continue // not ours
		}
		b.mu.Lock()
		if ch := b.wait[a.ID]; ch != nil && a.Method == "" {
			delete(b.wait, a.ID)
			ch <- a
		}
		switch a.Method {
		case "Page.loadEventFired":
			b.loads++
		case "Runtime.exceptionThrown", "Log.entryAdded":
			b.faults = append(b.faults, string(a.Params))
		case "Runtime.consoleAPICalled":
			if strings.Contains(string(a.Params), `"type":"error"`) {
				b.faults = append(b.faults, string(a.Params))
			}
		}
		b.mu.Unlock()
	}
}

// call asks the browser and waits for the answer.
func (b *browser) call(method string, params, into any) {
	b.t.Helper()
	if err := b.ask(method, params, into); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *browser) ask(method string, params, into any) error {
	ch := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.wait[id] = ch
	b.mu.Unlock()
	msg := map[string]any{"id": id, "method": method}
	if params != nil {
		msg["params"] = params
	}
	if b.session != "" {
		msg["sessionId"] = b.session
	}
	text, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case a, ok := <-ch:
		switch {
		case !ok:
			return io.ErrUnexpectedEOF
		case a.Error != nil:
			return fmt.Errorf("%s", a.Error.Message)
		case into != nil:
			return json.Unmarshal(a.Result, into)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("no answer in time")
	}
}

// eval runs a script in the page and takes its value.
func (b *browser) eval(script string, into any) {
	b.t.Helper()
	if err := b.try(script, into); err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
}

func (b *browser) try(script string, into any) error {
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := b.ask("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &out); err != nil {
		return err
	}
	if e := out.ExceptionDetails; e != nil {
		return fmt.Errorf("%s %s", e.Text, e.Exception.Description)
	}
	if into == nil || len(out.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(out.Result.Value, into)
}

// until waits until a script is true. Errors count as no: the page may be just
// changing.
func (b *browser) until(what, script string, limit time.Duration) {
	b.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(25 * time.Millisecond) { // another process acts
		yes := false
		err := b.try("!!("+script+")", &yes)
		if err == nil && yes {
			return
		}
		if time.Now().After(end) {
			var text string
			_ = b.try("location.href + '\\n' + document.body.innerText", &text)
			b.shoot("failed")
			b.t.Fatalf("not within %s: %s (%v)\n%s", limit, what, err, text)
		}
	}
}

// loaded waits for the page that an action leads to.
func (b *browser) loaded(action func()) {
	b.t.Helper()
	b.mu.Lock()
	before := b.loads
	b.mu.Unlock()
	action()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // another process acts
		b.mu.Lock()
		done := b.loads > before
		b.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			b.shoot("failed")
			b.t.Fatal("no page was loaded in time")
		}
	}
}

// open goes to a page.
func (b *browser) open(url string) {
	b.t.Helper()
	b.loaded(func() { b.call("Page.navigate", map[string]any{"url": url}, nil) })
}

// click presses the mouse on the middle of an element, as a person does.
func (b *browser) click(selector string) {
	b.t.Helper()
	var at []float64
	b.eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e) return null;
		e.scrollIntoView({ block: "center", inline: "center" });
		const r = e.getBoundingClientRect();
		return [r.left + r.width / 2, r.top + r.height / 2];
	})()`, selector), &at)
	if len(at) != 2 {
		b.shoot("failed")
		b.t.Fatalf("there is no %s", selector)
	}
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1}, nil)
	}
}

// press types a key.
func (b *browser) press(key string) {
	b.t.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]
	down := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if key == "Enter" {
		down["type"], down["text"] = "keyDown", "\r"
	}
	b.call("Input.dispatchKeyEvent", down, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
}

// size makes the window so large, and light or dark.
func (b *browser) size(width, height int, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshots is where pictures of the pages are left, for people.
const screenshots = "../../bin/screenshots"

// shoot keeps a picture of the whole page.
func (b *browser) shoot(name string) {
	b.t.Helper()
	var page struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	b.call("Page.getLayoutMetrics", nil, &page)
	var picture struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": page.CSSContentSize.Width, "height": min(page.CSSContentSize.Height, 4000), "scale": 1},
	}, &picture)
	data, err := base64.StdEncoding.DecodeString(picture.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(screenshots, name+".png"), data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// clean wants that no page wrote an error or was kept from something.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fault := range b.faults {
		if strings.Contains(fault, `/console/nowhere"`) || strings.Contains(fault, wrongTopic) {
			continue // it isn't there, or is refused, as it should be
		}
		b.t.Errorf("the browser says: %s", fault)
	}
	b.faults = nil
}
