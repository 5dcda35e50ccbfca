// Package peer starts brokers as processes of their own, for tests: Sawlog as
// it is shipped, and Apache Kafka as it comes from Maven.
//
// What it keeps, outside the project's sources:
//
//	bin/compat/sawlog        the command line, built once per test process
//	bin/compat/java/lib/     jars of testdata/java/pom.xml
//	bin/compat/java/pom.xml  the pom they were resolved from
//
// Other suites with sources in Java keep their jars and classes there too
// (Classes).
package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options says how a server is started.
type Options struct {
	Dir    string            // data directory; empty: one of the test's
	Topics map[string]string // defaults of topic configs, by the names of topic configs
	Args   []string          // Sawlog: flags of serve; Kafka: key=value over server.properties
	Env    []string          // beside that of the test
	Port   int               // 0: a free one; kept over Restart
	Heap   string            // Kafka only: -Xmx and -Xms, 512m when empty
	Binary string            // Sawlog only: a command line built before; empty: that of this tree
	Racks  bool              // Sawlog's clusters only: each node stands in a rack of its own, r1 and so on
}

// Server is a broker in a process of its own, stopped when its test ends.
type Server struct {
	Name    string // sawlog or kafka
	ID      int32  // of the broker, from 1 on
	Addr    string // HOST:PORT of the Kafka listener
	HTTP    string // HOST:PORT of Sawlog's console and API; empty for Kafka
	Dir     string // data directory
	LogFile string // what it writes to standard output and error, over all its lives
	PID     int    // of its present life

	t       testing.TB
	argv    []string
	env     []string
	process *Process
}

// patience is how long a server may take to answer or to stop. A JVM that gets a
// tenth of a core needs minutes.
const patience = 3 * time.Minute

// start runs the server and returns when it takes requests.
func (s *Server) start() {
	s.t.Helper()
	s.launch()
	s.await(1)
}

// launch runs the server's process.
func (s *Server) launch() {
	s.t.Helper()
	p, err := Launch{Argv: s.argv, Env: s.env, LogFile: s.LogFile}.Start()
	if err != nil {
		s.t.Fatalf("%s: %v", s.Name, err)
	}
	s.process, s.PID = p, p.PID
}

// await returns when the server takes requests and knows so many brokers.
func (s *Server) await(brokers int) {
	s.t.Helper()
	if err := s.answers(brokers, patience); err != nil {
		s.process.Kill()
		s.t.Fatalf("%s %d: %v; it said:\n%s", s.Name, s.ID, err, tail(s.LogFile))
	}
}

// answers waits until the server counts itself among so many brokers.
func (s *Server) answers(brokers int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-s.process.ended:
			return fmt.Errorf("it ended before it answered: %w", s.process.err)
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", limit, last)
		case <-tick.C: // another process acts
			if last = s.present(ctx, brokers); last == nil {
				return nil
			}
		}
	}
}

// present asks for metadata and wants the server and others in it.
func (s *Server) present(ctx context.Context, brokers int) error {
	conn, err := Dial(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // only read from
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 4
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := conn.Ask(req, 5*time.Second)
	if err != nil {
		return err
	}
	m := resp.(*kmsg.MetadataResponse)
	self := false
	for _, b := range m.Brokers {
		self = self || b.NodeID == s.ID
	}
	if !self || len(m.Brokers) < brokers || m.ControllerID < 0 {
		return fmt.Errorf("%d brokers and controller %d in its metadata, itself among them: %t", len(m.Brokers), m.ControllerID, self)
	}
	return nil
}

// Stop ends the server with SIGTERM and waits for it. One that has ended
// already stays so.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.process.Stop(patience); err != nil {
		s.t.Errorf("%s %d: %v; it said:\n%s", s.Name, s.ID, err, tail(s.LogFile))
	}
}

// Kill ends the server with SIGKILL and waits for it.
func (s *Server) Kill() { s.process.Kill() }

// Pause stops the server where it is (SIGSTOP) and waits until all of its threads
// stand still; Resume lets it go on.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	for end := time.Now().Add(10 * time.Second); !stopped(s.PID); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Errorf("%s %d runs on under SIGSTOP", s.Name, s.ID)
			return
		}
	}
}

func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// stopped tells whether every thread of a process is in state T (proc(5)).
func stopped(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if _, state, ok := bytes.Cut(stat, []byte(") ")); err == nil && ok && state[0] != 'T' {
			return false
		}
	}
	return true
}

func (s *Server) signal(to os.Signal) {
	s.t.Helper()
	if err := s.process.Signal(to); err != nil {
		s.t.Errorf("%s %d: %v", s.Name, s.ID, err)
	}
}

// Restart starts the server again over the same directory and on the same
// ports; one that still runs is stopped first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}

// Usage is what the process has used in its present life.
func (s *Server) Usage() Usage {
	s.t.Helper()
	u, err := usage(s.PID)
	if err != nil {
		s.t.Fatalf("%s: %v", s.Name, err)
	}
	return u
}

// address is a loopback address: of the port, or of a free one when it is 0.
func address(t testing.TB, port int) string {
	t.Helper()
	if port != 0 {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return Address(t)
}

// root is the project's folder.
func root(t testing.TB) string {
	t.Helper()
	dir, err := project()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// project finds the folder above a test that has a go.mod.
func project() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the test")
		}
	}
}

// tail is the end of a log, for a message.
func tail(file string) string {
	const most = 4 << 10
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}
