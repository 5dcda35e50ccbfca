package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// child is one life of a server.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

// spawn starts a command whose output is appended to a file. It dies with the
// test process.
func spawn(argv, env []string, logFile string) (*child, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = dieTogether()
	started := make(chan error)
	go func() {
		// The kernel sends the signal of death when the thread ends that started
		// the process, so that thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		_ = out.Close() // the process holds it now
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.ended)
		}
	}()
	return c, <-started
}

// kill ends the process at once.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.ended
}

// stop asks the process to end, and kills it when it takes too long.
func (c *child) stop(limit time.Duration) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-c.ended
		return nil
	}
	select {
	case <-c.ended:
		// A JVM ends with 143 = 128 + SIGTERM when it was asked to.
		if code := c.cmd.ProcessState.ExitCode(); code != 0 && code != 128+int(syscall.SIGTERM) {
			return fmt.Errorf("stopped by SIGTERM, it ended with: %w", c.err)
		}
		return nil
	case <-time.After(limit):
		c.kill()
		return fmt.Errorf("it did not stop within %s of SIGTERM", limit)
	}
}

// answers waits until the server at addr counts itself among the brokers.
func (c *child) answers(addr string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var last error
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-c.ended:
			tick.Stop()
			return fmt.Errorf("it ended before it answered: %w", c.err)
		case <-ctx.Done():
			tick.Stop()
			return fmt.Errorf("no answer within %s: %w", limit, last)
		case <-tick.C: // another process acts
			if last = present(ctx, addr); last == nil {
				tick.Stop()
				return nil
			}
		}
	}
}

// present asks for metadata and wants a broker in it.
func present(ctx context.Context, addr string) error {
	conn, err := Dial(ctx, addr)
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
	if m := resp.(*kmsg.MetadataResponse); len(m.Brokers) == 0 || m.ControllerID < 0 {
		return errors.New("no broker or controller in its metadata yet")
	}
	return nil
}
