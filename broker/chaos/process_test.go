//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/broker/compat/peer"
)

// process is one life of a server.
type process struct {
	*peer.Process
	clock *clock // nil: this machine lets none be set
}

// world is where a process lives, or believes to live.
type world struct {
	space string        // network namespace, "" = the test's own
	boot  string        // a file that reads as the kernel's boot id, "" = the true one
	clock time.Duration // by how much its wall clock is off
}

// launch starts a command in a world; its output is appended to a file. It dies
// with the test process.
func launch(w world, argv []string, logFile string) (*process, error) {
	p := &process{}
	var err error
	p.Process, err = peer.Launch{Argv: argv, LogFile: logFile, How: func(cmd *exec.Cmd) error {
		err := errors.Join(enter(w.space), bootAs(w.boot))
		if err == nil && noClocks() == nil {
			p.clock, err = startWithClock(cmd, w.clock)
		} else if err == nil {
			err = cmd.Start()
		}
		return err
	}}.Start()
	if err != nil {
		return nil, err
	}
	if p.clock != nil {
		go func() {
			<-p.Ended()
			_ = p.clock.memory.Close() // of a process that is no more
		}()
	}
	return p, nil
}

// enter moves the calling thread to a namespace.
func enter(space string) error {
	if space == "" {
		return nil
	}
	fd, err := unix.Open("/run/netns/"+space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", space, err)
	}
	defer func() { _ = unix.Close(fd) }() // only a handle
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

// bootAs makes another boot of the machine of what the calling thread starts, by
// a mount that only it and its children see.
func bootAs(file string) error {
	if file == "" {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	// What the test unmounts later goes away here too, and not the other way.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("a mount namespace: %w", err)
	}
	if err := unix.Mount(file, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("another boot id: %w", err)
	}
	return nil
}

// inNamespace runs fn on a thread in a namespace; sockets made there stay there.
func inNamespace(space string, fn func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		err := enter(space)
		if err == nil {
			err = fn()
		}
		result <- err
	}()
	return <-result
}

// waitABit is long enough for what goes on in the kernel or another process.
func waitABit() <-chan time.Time { return time.After(300 * time.Millisecond) }
