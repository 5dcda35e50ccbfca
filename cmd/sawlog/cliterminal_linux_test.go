package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/cmd/sawlog/output"
)

// seat is a command line under way on a terminal of its own, which is its
// standard input and standard error.
type seat struct {
	*child
	keys *os.File // the other end

	mu   sync.Mutex
	seen bytes.Buffer
}

// sit starts the command line on a terminal.
func (n *node) sit(env []string, args ...string) *seat {
	n.t.Helper()
	keys, screen := terminal(n.t)
	c := &seat{child: &child{t: n.t, ended: make(chan error, 1)}, keys: keys}
	c.cmd = exec.Command(n.bin, args...)
	c.cmd.Dir = n.dir
	c.cmd.Env = append(append(os.Environ(), "SAWLOG_BROKERS="+n.listen, "SAWLOG_SERVER=http://"+n.web, "TERM=xterm"), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.cmd.Stdin, c.cmd.Stderr, c.cmd.Stdout = screen, screen, &c.out
	if err := c.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	_ = screen.Close() // the process has it
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			k, err := keys.Read(buf)
			c.mu.Lock()
			c.seen.Write(buf[:k])
			c.mu.Unlock()
			if err != nil {
				return // EIO: nobody has the terminal any more
			}
		}
	}()
	go func() {
		err := c.cmd.Wait()
		<-read
		c.ended <- err
	}()
	n.t.Cleanup(c.killAll)
	return c
}

// screen is all that was shown so far.
func (c *seat) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.String()
}

// shows waits until a text was shown.
func (c *seat) shows(text string) {
	c.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(c.screen(), text); time.Sleep(10 * time.Millisecond) { // another process acts
		if time.Now().After(end) {
			c.t.Fatalf("%s did not show %q within 20 s: %q", strings.Join(c.cmd.Args[1:], " "), text, c.screen())
		}
	}
}

// types presses keys.
func (c *seat) types(keys string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// over waits for the end, which must have the code and have shown the text.
func (c *seat) over(code int, text string) {
	c.t.Helper()
	if got := c.wait(patience); got != code || !strings.Contains(c.screen(), text) {
		c.t.Errorf("%s: exit code %d, want %d and %q on the screen: %q", strings.Join(c.cmd.Args[1:], " "), got, code, text, c.screen())
	}
}

const interruptKey = "\x03" // Ctrl-C

// destructive are the lines that ask before they are carried out.
var destructive = []string{
	"topic delete orders", "topic trim orders --to latest", "group reset checkers --topic orders --to latest", "group delete checkers", "group delete checkers --topic orders",
	"job delete pageviews-hourly", "runs cancel GOING", "backfill cancel OPEN",
	"out drop pageviews-hourly --window 2026-11-28T14..2026-11-28T15", "out drop pageviews-hourly --run 4",
}

// asks: who destroys something on a terminal is asked, and no is an answer; so is
// Ctrl-C, at once.
func (s *shop) asks() {
	before := s.state()
	for i, line := range destructive {
		c := s.sit(nil, s.words(line)...)
		c.shows("? [y/N]")
		switch i % 3 {
		case 0:
			c.types("n\n")
			c.over(output.Failed, "nothing was changed")
		case 1:
			c.types("\n")
			c.over(output.Failed, "nothing was changed")
		case 2:
			c.types(interruptKey)
			c.over(output.Interrupted, "nothing was changed")
		}
	}
	s.unchanged(before)
	s.sawlog("topic", "create", "doomed", "--partitions", "1")
	c := s.sit(nil, "topic", "delete", "doomed")
	c.shows("delete doomed? [y/N]")
	c.types("y\n")
	c.over(output.OK, "")
	if code, _, _ := invoke(s.t, "", "topic", "describe", "doomed"); code != output.NotFound {
		s.t.Errorf("a topic that was deleted is there: exit code %d", code)
	}
}

// long is a line that takes its time on a server that is well: what its bar or
// the line beside it says, how Ctrl-C ends it, and what it says then.
type long struct {
	line  string
	shows string // on a terminal
	line2 string // elsewhere, within 10 s; "" = it is over before
	code  int
	says  string // after Ctrl-C; "" = it is over before
}

var longs = []long{
	{"runs watch GOING", "split 0", "offsets read", output.Interrupted, "goes on on the server"},
	{"backfill watch OPEN", "OPEN", "waiting", output.Interrupted, "goes on on the server"},
	{"run slow-here.yaml --fetch-bytes 64KiB", "split 0", "offsets read", output.Interrupted, "goes on with what is left"},
	{"rerun 4 --root warehouse/pageviews", "split 0", "", 0, ""},
	{"replay orders --range earliest..latest --to replayed", "split 0", "", 0, ""},
	{"verify --root warehouse/pageviews", "files", "", 0, ""},
	{"verify --root warehouse/pageviews --against-log", "split 0", "", 0, ""},
	{"produce clicks many.jsonl", "records acknowledged", "", 0, ""},
	{"consume orders", "", "", output.Interrupted, ""},
	{"consume orders -g readers", "", "", output.Interrupted, "committed"},
}

// hasSocket tells whether a process has a connection, or is about to.
func hasSocket(t *testing.T, pid int) bool {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(open, func(fd os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, fd.Name()))
		return err == nil && strings.HasPrefix(to, "socket:")
	})
}

// waits: long work shows how far it is, on a terminal by bars, elsewhere by a
// line every ten seconds; who ends it is told in what state things are.
func (s *shop) waits() {
	for _, name := range []string{"slow-here", "slow-there"} {
		s.write(name+".yaml", strings.ReplaceAll(string(mustRead(s.t, "slow.yaml")), "warehouse/slow", "warehouse/"+name))
	}
	s.write("many.jsonl", strings.Repeat("{\"user\":\"ann\",\"path\":\"/a/long/enough/path\"}\n", 200_000))
	beside := map[string]*child{}
	for _, l := range longs {
		if l.line2 != "" {
			beside[l.line2+l.line] = s.spawn(nil, s.words(strings.ReplaceAll(l.line, "slow-here", "slow-there"))...)
		}
	}
	for _, l := range longs {
		c := s.sit(nil, s.words(l.line)...)
		c.shows(strings.Join(s.words(l.shows), " "))
		if l.code == output.OK {
			c.over(l.code, "")
			continue
		}
		if strings.Contains(l.line, "-g readers") {
			s.eventually("the group has a member", patience, func() bool {
				code, out, _ := invoke(s.t, "", "group", "describe", "readers", "-o", "json")
				return code == output.OK && !strings.Contains(out, `"members": []`)
			})
		}
		s.eventually("it is connected", patience, func() bool { return hasSocket(s.t, c.cmd.Process.Pid) })
		time.Sleep(300 * time.Millisecond) // so that it is in the middle of it
		c.types(interruptKey)
		c.over(l.code, l.says)
	}
	for _, l := range longs {
		if l.line2 == "" {
			continue
		}
		c := beside[l.line2+l.line]
		c.says(strings.Join(s.words(l.line2), " "), 15*time.Second)
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
		if code := c.wait(patience); code != output.Terminated || strings.Contains(c.said.String(), "\x1b") {
			s.t.Errorf("%s: exit code %d after SIGTERM, want %d, without a terminal: %q", l.line, code, output.Terminated, c.said.String())
		}
	}
}

// looks: colour and bars are for terminals that have them and people who want
// them.
func (s *shop) looks() {
	const red = "\x1b[31m"
	for _, c := range []struct {
		env  []string
		args []string
		red  bool
	}{
		{nil, nil, true},
		{[]string{"NO_COLOR=1"}, nil, false},
		{[]string{"TERM=dumb"}, nil, false},
		{nil, []string{"--color", "never"}, false},
		{[]string{"NO_COLOR=1"}, []string{"--color", "always"}, true},
		{[]string{"SAWLOG_COLOR=never"}, nil, false},
	} {
		run := s.sit(c.env, append([]string{"topic", "describe", "none"}, c.args...)...)
		run.over(output.NotFound, "error:")
		if strings.Contains(run.screen(), red) != c.red {
			s.t.Errorf("%v %v: %q", c.env, c.args, run.screen())
		}
	}
	for _, c := range []struct {
		env, args []string
	}{
		{[]string{"TERM=dumb"}, nil},
		{nil, []string{"--progress", "plain"}},
		{nil, []string{"--progress", "none"}},
	} {
		run := s.sit(c.env, append([]string{"verify", "--root", "warehouse/pageviews"}, c.args...)...)
		run.over(output.OK, "")
		if strings.Contains(run.screen(), "\x1b") || strings.Contains(run.screen(), "%") {
			s.t.Errorf("%v %v shows a bar: %q", c.env, c.args, run.screen())
		}
	}
}

// TestSignalsWhileNobodyAnswers: who waits for a server that takes connections and
// says nothing is let go at once, by Ctrl-C as by SIGTERM.
func TestSignalsWhileNobodyAnswers(t *testing.T) {
	t.Parallel()
	n := bare(t)
	mute, err := net.Listen("tcp", n.listen)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan net.Conn, 100)
	go func() {
		for conn, err := mute.Accept(); err == nil; conn, err = mute.Accept() {
			asked <- conn
		}
	}()
	defer func() { _ = mute.Close() }()
	n.web = n.listen
	n.write("job.yaml", "name: job\nsource: {topics: [t]}\noutput: {root: 'file:///tmp/never-made'}\n")
	for _, line := range []string{"topic list", "job list", "run job", "run job.yaml", "consume orders", "produce orders", "verify d"} {
		for key, code := range map[string]int{interruptKey: output.Interrupted, "": output.Terminated} {
			for len(asked) > 0 {
				<-asked // by the one before
			}
			c := n.sit(nil, strings.Fields(line)...)
			<-asked // and is not answered
			began := time.Now()
			if key != "" {
				c.types(key)
			} else if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			c.over(code, "error:")
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s ended %v after it was told to", line, took)
			}
			if word := inner.FindString(c.screen()); word != "" {
				t.Errorf("%s: %q is a word of the inside: %s", line, word, c.screen())
			}
		}
	}
}

// TestCommandLine has conversations with one server: what can't be done, what
// would be done, and what is.
func TestCommandLine(t *testing.T) {
	s := openShop(t, yearly)
	s.damage()
	for _, part := range []struct {
		name string
		of   func(*shop)
	}{
		{"faults", (*shop).faults},
		{"dry runs", (*shop).rehearsed},
		{"asks", (*shop).asks},
		{"waits", (*shop).waits},
		{"looks", (*shop).looks},
		{"JSON", (*shop).speaksJSON},
	} {
		t.Run(part.name, func(t *testing.T) { part.of(s.in(t)) })
	}
}
