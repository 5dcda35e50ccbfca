package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/cmd/sawlog/systemd"
)

// TestSupervised: ready is said once, and not before it is true; the watchdog
// hears nothing of a broker that hangs, or that answers too late.
func TestSupervised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		trouble := errors.New("it catches up:\n3 of 4 partitions")
		var hangs atomic.Bool
		s := supervised{
			log: slog.New(slog.DiscardHandler),
			tell: func(lines ...string) error {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, lines...)
				return nil
			},
			ready: func() error {
				mu.Lock()
				defer mu.Unlock()
				return trouble
			},
			alive: func(ctx context.Context) error {
				if hangs.Load() {
					<-ctx.Done()
				}
				return ctx.Err()
			},
		}
		heard := func() []string {
			mu.Lock()
			defer mu.Unlock()
			was := told
			told = nil
			return was
		}
		expect := func(what string, want ...string) {
			t.Helper()
			if got := heard(); !slices.Equal(got, want) {
				t.Errorf("%s: told %q, want %q", what, got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.follow(ctx) })
		time.Sleep(10*lookEvery + lookEvery/2) // between two looks
		expect("not ready", "STATUS=not ready: it catches up: 3 of 4 partitions")
		for _, step := range []struct {
			err  error
			want []string
		}{
			{nil, []string{systemd.Ready, "STATUS=in service"}},
			{errors.New("cut off"), []string{"STATUS=not ready: cut off"}},
			{nil, []string{"STATUS=in service"}},
		} {
			mu.Lock()
			trouble = step.err
			mu.Unlock()
			time.Sleep(3 * lookEvery)
			expect("after a change", step.want...)
		}

		const patience = 8 * time.Second
		wg.Go(func() { s.feed(ctx, patience) })
		time.Sleep(2*patience + patience/8) // between two looks
		if got := heard(); len(got) != 9 {
			t.Errorf("in two turns of the watchdog it was told %q", got)
		}
		hangs.Store(true)
		time.Sleep(4 * patience)
		expect("of a broker that hangs")
		hangs.Store(false)
		time.Sleep(patience)
		if got := heard(); !slices.Contains(got, systemd.Alive) {
			t.Errorf("of a broker that answers again: %q", got)
		}
		cancel()
		wg.Wait()
	})
}

// TestAnswers: a listener that says nothing, or nonsense, is no broker that
// lives.
func TestAnswers(t *testing.T) {
	for what, answer := range map[string]func(net.Conn){
		"silence":       func(net.Conn) {},
		"a closed door": func(c net.Conn) { _ = c.Close() },
		"another frame": func(c net.Conn) { _, _ = c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 1}) },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if c, err := l.Accept(); err == nil {
				answer(c)
				<-t.Context().Done()
				_ = c.Close()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if answers(ctx, l.Addr().String()) == nil {
			t.Errorf("%s was taken for an answer", what)
		}
		cancel()
		_ = l.Close()
		t.Cleanup(wg.Wait)
	}
}

// supervisor hears what a process says of itself.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func supervise(t *testing.T) *supervisor {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &supervisor{t, c, path}
}

// hear returns the lines that come within a time, up to the one that is waited
// for.
func (s *supervisor) hear(until string, limit time.Duration) (lines []string) {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, err := s.conn.Read(buf)
		if err != nil {
			return lines
		}
		for line := range strings.SplitSeq(string(buf[:n]), "\n") {
			lines = append(lines, line)
			if line == until {
				return lines
			}
		}
	}
}

func (s *supervisor) hears(until string) {
	s.t.Helper()
	if lines := s.hear(until, 20*time.Second); !slices.Contains(lines, until) {
		s.t.Fatalf("never told %s: %q", until, lines)
	}
}

// TestServeUnderSystemd: a server tells its supervisor that it is ready when
// /readyz says so, feeds the watchdog while it lives, and tells that it stops.
func TestServeUnderSystemd(t *testing.T) {
	t.Parallel()
	s, n := supervise(t), bare(t)
	c := n.spawn([]string{"NOTIFY_SOCKET=" + s.path, "WATCHDOG_USEC=2000000"}, "serve", "--data", "data", "--listen", n.listen, "--http", n.web)
	s.hears(systemd.Ready)
	resp, err := http.Get("http://" + n.web + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("told to be ready, /readyz says %s", resp.Status)
	}
	s.hears(systemd.Alive)
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.hear("", 200*time.Millisecond) // what was on its way
	if lines := s.hear("", 2*time.Second); len(lines) > 0 {
		t.Errorf("a server that stands still said %q", lines)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.hears(systemd.Alive)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.hears(systemd.Stopping)
	if code := c.wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, c.said.String())
	}
}

// TestNotReadyUnderSystemd: a server that waits for its cluster is not ready,
// and its status says what it waits for.
func TestNotReadyUnderSystemd(t *testing.T) {
	t.Parallel()
	s, n := supervise(t), bare(t)
	c := n.spawn([]string{"NOTIFY_SOCKET=" + s.path}, "serve", "--data", "data", "--listen", n.listen, "--http", n.web, "--peer", freePort(t), "--join", "127.0.0.1:1")
	lines := s.hear(systemd.Ready, 3*time.Second)
	if slices.Contains(lines, systemd.Ready) || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "joins the cluster at 127.0.0.1:1") }) {
		t.Errorf("of a server that can't join: %q", lines)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.hears(systemd.Stopping)
	if code := c.wait(20 * time.Second); code != 143 {
		t.Errorf("exit code %d: %s", code, c.said.String())
	}
}

// TestWrongSupervisor: a socket that can't be spoken to is an error at the start.
func TestWrongSupervisor(t *testing.T) {
	t.Parallel()
	n := bare(t)
	c := n.spawn([]string{"NOTIFY_SOCKET=vsock:2:1"}, "serve", "--data", "data", "--listen", n.listen, "--http", n.web)
	if code := c.wait(20 * time.Second); code != 2 || !strings.Contains(c.said.String(), "NOTIFY_SOCKET") {
		t.Errorf("exit code %d: %s", code, c.said.String())
	}
}
