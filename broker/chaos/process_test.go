//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one life of a server.
type process struct {
	cmd   *exec.Cmd
	clock *clock // nil: this machine lets none be set
	ended chan struct{}
	err   error // of Wait, once ended is closed
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
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends the signal of death when the thread ends that started
		// the process, so that thread has to stay; and it is in another namespace,
		// so it ends with this goroutine, which never unlocks it.
		runtime.LockOSThread()
		err := errors.Join(enter(w.space), bootAs(w.boot))
		if err == nil && noClocks() == nil {
			p.clock, err = startWithClock(p.cmd, w.clock)
		} else if err == nil {
			err = p.cmd.Start()
		}
		_ = out.Close() // the process holds it now
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
		if p.clock != nil {
			_ = p.clock.memory.Close() // of a process that is no more
		}
	}()
	return p, <-started
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

// alive says whether the process runs, or could if it were let.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// stop asks the process to end, and kills it when it takes too long.
func (p *process) stop(limit time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.ended
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != 128+int(syscall.SIGTERM) {
			return fmt.Errorf("stopped by SIGTERM, it ended with: %w", p.err)
		}
		return nil
	case <-timer.C:
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // where it hangs, for its log
		time.Sleep(time.Second)                   // another process writes
		p.kill()
		return fmt.Errorf("it did not stop within %s of SIGTERM", limit)
	}
}

// waitABit is long enough for what goes on in the kernel or another process.
func waitABit() <-chan time.Time { return time.After(300 * time.Millisecond) }
