package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is one life of a program.
type Process struct {
	PID   int
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

// Launch says how a process is started.
type Launch struct {
	Argv    []string
	Env     []string // beside that of the test
	LogFile string   // its output is appended to it
	// How, when set, starts the command instead of Cmd.Start. It is called on a
	// thread that nothing else uses after: the process is in the namespaces that
	// it enters.
	How func(*exec.Cmd) error
}

// Start runs a process. It dies with the test process.
func (l Launch) Start() (*Process, error) {
	out, err := os.OpenFile(l.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(l.Argv[0], l.Argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), l.Env...)
	p.cmd.SysProcAttr = dieTogether()
	started := make(chan error)
	go func() {
		// The kernel sends the signal of death when the thread ends that started
		// the process, so that thread has to stay; it may be in other namespaces,
		// so it ends with this goroutine, which never unlocks it.
		runtime.LockOSThread()
		start := l.How
		if start == nil {
			start = (*exec.Cmd).Start
		}
		err := start(p.cmd)
		_ = out.Close() // the process holds it now
		if err == nil {
			p.PID = p.cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Alive says whether the process runs, or could if it were let.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Ended is closed when the process is no more.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal; a process that has ended hears nothing.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the process at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// Stop asks the process to end, and kills it when it takes too long.
func (p *Process) Stop(limit time.Duration) error {
	if !p.Alive() {
		return nil
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		// A JVM ends with 143 = 128 + SIGTERM when it was asked to.
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && code != 128+int(syscall.SIGTERM) {
			return fmt.Errorf("stopped by SIGTERM, it ended with: %w", p.err)
		}
		return nil
	case <-timer.C:
		_ = p.Signal(syscall.SIGQUIT) // where it hangs, for its log
		time.Sleep(time.Second)       // another process writes
		p.Kill()
		return fmt.Errorf("it did not stop within %s of SIGTERM", limit)
	}
}
