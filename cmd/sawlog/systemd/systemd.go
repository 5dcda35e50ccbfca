// Package systemd tells the supervisor of a process how it is, by sd_notify(3)
// and the watchdog of sd_watchdog_enabled(3): lines of text in datagrams on a
// socket that the environment names. Without such an environment it tells nobody.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Lines a supervisor understands.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// Status is the line that says in words what the process is at.
func Status(text string) string { return "STATUS=" + strings.Join(strings.Fields(text), " ") }

// Notifier speaks to the supervisor. The zero value has none.
type Notifier struct {
	addr *net.UnixAddr
	// Watchdog is how long the supervisor waits for the next Alive before it
	// takes the process for hung; 0 = for ever.
	Watchdog time.Duration
}

// Take reads the environment, and takes what it reads out of it: the processes
// this one starts must not speak for it. An address it can't use is an error.
func Take() (Notifier, error) {
	path, usec, pid := take("NOTIFY_SOCKET"), take("WATCHDOG_USEC"), take("WATCHDOG_PID")
	if path == "" {
		return Notifier{}, nil
	}
	if path[0] != '/' && path[0] != '@' {
		return Notifier{}, fmt.Errorf("NOTIFY_SOCKET=%s: want the path of a socket, or @ and an abstract name", path)
	}
	n := Notifier{addr: &net.UnixAddr{Name: path, Net: "unixgram"}}
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil // the watchdog is for another process
	}
	us, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || us <= 0 || us > int64(1<<62/time.Microsecond) {
		return Notifier{}, fmt.Errorf("WATCHDOG_USEC=%s: want microseconds", usec)
	}
	n.Watchdog = time.Duration(us) * time.Microsecond
	return n, nil
}

func take(name string) string {
	text := os.Getenv(name)
	_ = os.Unsetenv(name) // it can't fail: the name is good
	return text
}

// sendTime bounds a datagram to a supervisor that reads none.
const sendTime = time.Second

// Tell sends lines in one datagram.
func (n Notifier) Tell(lines ...string) error {
	if n.addr == nil {
		return nil
	}
	c, err := net.DialUnix(n.addr.Net, nil, n.addr)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	defer func() { _ = c.Close() }() // a datagram is sent or it isn't
	if err := c.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	if _, err := c.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}
