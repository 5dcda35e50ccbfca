package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// listen is a supervisor at an address.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTell(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@sawlog-test-%d", os.Getpid())} {
		c := listen(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		n, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		if _, there := os.LookupEnv("NOTIFY_SOCKET"); there || n.Watchdog != 0 {
			t.Errorf("%s: left in the environment %t, watchdog %s", name, there, n.Watchdog)
		}
		if err := n.Tell(Ready, Status("it\nserves ")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 256)
		size, err := c.Read(got)
		if want := "READY=1\nSTATUS=it serves"; err != nil || string(got[:size]) != want {
			t.Errorf("%s: heard %q, %v, want %q", name, got[:size], err, want)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	if err := (Notifier{}).Tell(Ready); err != nil {
		t.Errorf("without a supervisor: %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	n, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	if n.Tell(Ready) == nil {
		t.Error("a socket that isn't there was written to")
	}
}

func TestWatchdogOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		socket, usec, pid string
		want              time.Duration
		wrong             bool
	}{
		{"/run/notify", "3000000", "", 3 * time.Second, false},
		{"/run/notify", "3000000", strconv.Itoa(os.Getpid()), 3 * time.Second, false},
		{"/run/notify", "3000000", "1", 0, false},
		{"/run/notify", "", "", 0, false},
		{"", "3000000", "", 0, false},
		{"/run/notify", "soon", "", 0, true},
		{"/run/notify", "0", "", 0, true},
		{"vsock:2:1234", "", "", 0, true},
	} {
		for name, text := range map[string]string{"NOTIFY_SOCKET": c.socket, "WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid} {
			t.Setenv(name, text)
		}
		n, err := Take()
		if n.Watchdog != c.want || (err != nil) != c.wrong {
			t.Errorf("%+v: %s, %v", c, n.Watchdog, err)
		}
	}
}
