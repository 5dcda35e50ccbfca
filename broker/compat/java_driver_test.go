package compat

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// javaPatience is how long a tool may take. The slowest here waits out a
// client's own minute.
const javaPatience = 90 * time.Second

// javaDriver is one JVM that runs tools; see Driver.java.
type javaDriver struct {
	t    testing.TB
	in   io.WriteCloser
	mu   sync.Mutex
	last int64
	runs map[int64]*javaRun
	// The console consumer counts its records in a static field: one at a time.
	console sync.Mutex
	gone    chan struct{} // closed when the JVM has ended
}

// javaRun is one tool being run, and what came of it.
type javaRun struct {
	t    testing.TB
	id   int64
	what string
	d    *javaDriver

	lines chan string // of a live run, as they come; closed at its end
	done  chan struct{}
	code  int
	out   []string // without blank lines and stack frames, blanks run together
	err   []string // likewise, without log lines
	log   []string // what Kafka's logger said, warnings and worse
}

func startJava(t testing.TB) *javaDriver {
	t.Helper()
	cmd := peer.JavaMain(t, "Driver")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &javaDriver{t: t, in: in, runs: map[int64]*javaRun{}, gone: make(chan struct{})}
	go func() {
		defer close(d.gone)
		d.listen(out)
	}()
	t.Cleanup(func() {
		_ = in.Close() // ends the JVM
		<-d.gone
		if err := cmd.Wait(); err != nil {
			t.Errorf("java driver: %v", err)
		}
	})
	return d
}

// listen hands each answer to its run until the JVM ends.
func (d *javaDriver) listen(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a struct {
			ID       int64
			Line     *string
			Code     int
			Out, Err string
		}
		if err := json.Unmarshal(line, &a); err != nil {
			d.t.Errorf("java driver: %v in %q", err, line)
			return
		}
		d.mu.Lock()
		r := d.runs[a.ID]
		if r != nil && a.Line == nil {
			delete(d.runs, a.ID)
		}
		d.mu.Unlock()
		switch {
		case r == nil:
			d.t.Errorf("java driver: an answer to nothing: %q", line)
		case a.Line != nil:
			r.lines <- *a.Line
		default:
			r.code, r.out = a.Code, javaLines(a.Out)
			r.err, r.log = javaErrors(a.Err)
			close(r.lines)
			close(r.done)
		}
	}
}

// ask starts a tool.
func (d *javaDriver) ask(t testing.TB, live bool, stdin, main string, args []string) *javaRun {
	t.Helper()
	// A live run's lines wait here until somebody looks; none writes more.
	const mostLines = 1 << 16
	r := &javaRun{
		t: t, d: d, what: main + " " + strings.Join(args, " "),
		lines: make(chan string, mostLines), done: make(chan struct{}),
	}
	d.mu.Lock()
	d.last++
	r.id = d.last
	d.runs[r.id] = r
	d.mu.Unlock()
	d.send(t, map[string]any{"id": r.id, "main": main, "args": args, "stdin": stdin, "live": live})
	return r
}

func (d *javaDriver) send(t testing.TB, request map[string]any) {
	t.Helper()
	b, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.in.Write(append(b, '\n')); err != nil {
		t.Fatalf("java driver: %v", err)
	}
}

// run runs a tool to its end.
func (d *javaDriver) run(t testing.TB, stdin, main string, args ...string) *javaRun {
	t.Helper()
	if main == javaClass("console-consumer") {
		d.console.Lock()
		defer d.console.Unlock()
	}
	r := d.ask(t, false, stdin, main, args)
	r.wait()
	return r
}

// live starts a tool that goes on until it is stopped.
func (d *javaDriver) live(t testing.TB, main string, args ...string) *javaRun {
	t.Helper()
	return d.ask(t, true, "", main, args)
}

func (r *javaRun) wait() {
	r.t.Helper()
	select {
	case <-r.done:
	case <-r.d.gone:
		r.t.Fatalf("%s: the JVM ended", r.what)
	case <-time.After(javaPatience):
		r.t.Fatalf("%s: no end after %s", r.what, javaPatience)
	}
}

// stop does what SIGTERM would and waits for the end.
func (r *javaRun) stop() {
	r.t.Helper()
	r.d.send(r.t, map[string]any{"id": r.id, "stop": true})
	r.wait()
}

// until waits for a line that matches and returns it.
func (r *javaRun) until(pattern string) string {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	limit := time.After(javaPatience)
	seen := []string{}
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("%s: ended with %d without a line like %q; it said %q %q", r.what, r.code, pattern, seen, r.err)
			}
			if want.MatchString(line) {
				return line
			}
			seen = append(seen, line)
		case <-limit:
			r.t.Fatalf("%s: no line like %q after %s, only %q", r.what, pattern, javaPatience, seen)
		}
	}
}

// ok fails the test unless the tool ended well and silently.
func (r *javaRun) ok() *javaRun {
	r.t.Helper()
	if r.code != 0 || len(r.err) > 0 {
		r.t.Fatalf("%s: exit %d\n%s\nstandard error:\n%s\nlog:\n%s", r.what, r.code,
			strings.Join(r.out, "\n"), strings.Join(r.err, "\n"), strings.Join(r.log, "\n"))
	}
	return r
}

// javaLines is text as lines, none blank and no two blanks together, since tools
// pad their columns to what happens to stand in them; stack frames are left out.
func javaLines(text string) []string {
	lines := []string{}
	for line := range strings.Lines(text) {
		if javaFrame.MatchString(line) {
			continue
		}
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return lines
}

var (
	javaLogLine = regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{3} [A-Z]+ `)
	javaFrame   = regexp.MustCompile(`^\s+(at |\.\.\. \d+ more)`)
)

// javaAdvert is what every consumer of the classic protocol says since 4.3.
const javaAdvert = "The consumer rebalance protocol (KIP-848) is production-ready!"

// javaErrors parts standard error into what the tool and what the logger said.
func javaErrors(text string) (said, logged []string) {
	for line := range strings.Lines(text) {
		switch {
		case javaFrame.MatchString(line), strings.HasPrefix(line, javaAdvert):
		case javaLogLine.MatchString(line):
			logged = append(logged, strings.TrimSpace(line))
		default:
			said = append(said, javaLines(line)...)
		}
	}
	return said, logged
}
