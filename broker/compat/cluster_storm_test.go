package compat_test

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

// stormLine is what a client says of a record: sent, failed, got or committed.
type stormLine struct {
	verb      string
	partition int32
	offset    int64 // -1: the client doesn't say
	key       string
	sequence  int64
	at        time.Time
}

// stormProgram is a foreign client as producer and as member of a group, with
// the lines of Storm.java.
type stormProgram struct {
	name    string
	produce func(t testing.TB, addr, topic string) *exec.Cmd
	consume func(t testing.TB, addr, topic, group string) *exec.Cmd
	feed    bool // the producer is given its records, and answers for them all by how it ends
}

const (
	stormKeys       = 12
	stormPartitions = 6
	stormPace       = 5 * time.Millisecond
)

// stormPrograms are a client of each great family.
func stormPrograms(t testing.TB) []stormProgram {
	t.Helper()
	python := pythonProgram(t, "storm").argv
	keys, pace := fmt.Sprint(stormKeys), fmt.Sprint(stormPace.Milliseconds())
	return []stormProgram{
		{
			name: "java",
			produce: func(t testing.TB, addr, topic string) *exec.Cmd {
				return peer.JavaMain(t, "Storm", "produce", addr, topic, keys, pace)
			},
			consume: func(t testing.TB, addr, topic, group string) *exec.Cmd {
				return peer.JavaMain(t, "Storm", "consume", addr, topic, group)
			},
		},
		{
			name: "confluent",
			produce: func(_ testing.TB, addr, topic string) *exec.Cmd {
				return command(python, "produce", addr, topic, keys, pace)
			},
			consume: func(_ testing.TB, addr, topic, group string) *exec.Cmd {
				return command(python, "consume", addr, topic, group)
			},
		},
		{
			name: "kcat", feed: true, // -E: it goes on when its last connection ends
			produce: func(t testing.TB, addr, topic string) *exec.Cmd {
				return exec.Command(peer.Tool(t, "kcat"), "-b", addr, "-q", "-E", "-P", "-t", topic, "-K", ":", "-X", "enable.idempotence=true", "-X", "linger.ms=1")
			},
			consume: func(t testing.TB, addr, topic, group string) *exec.Cmd {
				return exec.Command(peer.Tool(t, "kcat"), "-b", addr, "-q", "-E", "-u", "-f", "got %p %o %k %s\n", "-X", "auto.offset.reset=earliest",
					"-X", "session.timeout.ms=10000", "-X", "auto.commit.interval.ms=500", "-G", group, topic)
			},
		},
	}
}

func command(argv []string, more ...string) *exec.Cmd {
	argv = append(append([]string{}, argv...), more...)
	return exec.Command(argv[0], argv[1:]...)
}

// stormClient is one such client at work.
type stormClient struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when it has said its last
	stuck bool          // another one has taken its place

	mu    sync.Mutex
	lines []stormLine
	said  strings.Builder // on standard error
}

// Write takes what it says on standard error.
func (c *stormClient) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(b)
}

func (c *stormClient) complaints() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clip(c.said.String())
}

func startStorm(t testing.TB, name string, cmd *exec.Cmd) *stormClient {
	t.Helper()
	c := &stormClient{t: t, name: name, cmd: cmd, ended: make(chan struct{})}
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = c
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		c.listen(out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-c.ended
		_ = cmd.Wait() // how it ended was judged where it matters
	})
	return c
}

func (c *stormClient) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		l := stormLine{offset: -1, at: time.Now()}
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		l.verb = verb
		var err error
		switch verb {
		case "sent", "got":
			_, err = fmt.Sscan(rest, &l.partition, &l.offset, &l.key, &l.sequence)
		case "committed":
			_, err = fmt.Sscan(rest, &l.partition, &l.offset)
		default:
			err = fmt.Errorf("a producer that may try for two minutes gave up")
		}
		if err != nil {
			c.t.Errorf("%s: %v: %q", c.name, err, lines.Text())
			continue
		}
		c.add(l)
	}
}

func (c *stormClient) add(l stormLine) {
	c.mu.Lock()
	c.lines = append(c.lines, l)
	c.mu.Unlock()
}

// forgotten says whether the client lost its partitions by a fault of its own, on
// any cluster: librdkafka never asks again where its group stands once a broker
// has told it that another one coordinates the group now (its issue 5586), and
// kcat ends then.
func (c *stormClient) forgotten() bool {
	return strings.Contains(c.complaints(), "Failed to fetch committed offsets")
}

// all is what it has said so far with a verb.
func (c *stormClient) all(verb string) []stormLine {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []stormLine
	for _, l := range c.lines {
		if l.verb == verb {
			list = append(list, l)
		}
	}
	return list
}

// feed gives the producer a record every so often until told to stop; it takes
// them for sent, and end has to see whether they were.
func (c *stormClient) feed(stop <-chan struct{}) {
	tick := time.NewTicker(stormPace)
	defer tick.Stop()
	for n := int64(0); ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C: // the pace of a producer
		}
		l := stormLine{verb: "sent", offset: -1, key: fmt.Sprintf("k%d", n%stormKeys), sequence: n, at: time.Now()}
		if _, err := fmt.Fprintf(c.stdin, "%s:%d\n", l.key, n); err != nil {
			c.t.Errorf("%s takes no more records: %v", c.name, err)
			return
		}
		c.add(l)
	}
}

// end ends a client that still works, by the end of its input or a signal, and
// wants it to end well.
func (c *stormClient) end(signal bool) {
	select {
	case <-c.ended:
		if !c.forgotten() {
			c.t.Errorf("%s ended by itself: %v\n%s", c.name, c.cmd.Wait(), c.complaints())
		}
		return
	default:
	}
	_ = c.stdin.Close() // it is read to its end or not at all
	if signal {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // one that is gone shows below
	}
	select {
	case <-c.ended:
	case <-time.After(2 * time.Minute):
		c.t.Errorf("%s doesn't end", c.name)
		return
	}
	// A JVM that ends by a signal says so.
	if err := c.cmd.Wait(); err != nil && c.cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		c.t.Errorf("%s: %v\n%s", c.name, err, c.complaints())
	}
}
