//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// node is a broker: a server process, or the place where one was and will be.
type node struct {
	id     int32
	kafka  string // HOST:PORT of each listener
	peer   string
	http   string
	world  world
	dir    string // the room of its data, log and volume
	volume *volume
	argv   []string

	mu      sync.Mutex
	process *process
	lives   int
	left    bool // it is no longer of the cluster; of the one who does harm
	paused  bool
}

// data is the node's data directory.
func (n *node) data() string { return filepath.Join(n.dir, "disk", "data") }

// logFile is what the process says, over all its lives.
func (n *node) logFile() string { return filepath.Join(n.dir, "log") }

// start runs the process; it doesn't wait for it to serve.
func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil && n.process.Alive() {
		return nil
	}
	n.lives++
	f, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(f, lifeBegins+"%d of node %d, %s\n", n.lives, n.id, time.Now().UTC().Format(time.RFC3339Nano)) // for the reader of the log only
	_ = f.Close()
	n.process, err = launch(n.world, n.argv, n.logFile())
	n.paused = false
	return err
}

// running says whether there is a process, paused or not.
func (n *node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process != nil && n.process.Alive()
}

// kill ends the process with SIGKILL.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		n.process.Kill()
	}
}

// stop ends the process with SIGTERM. One that has said nothing yet in this life
// may not have got so far as to hear signals, and simply dies.
func (n *node) stop(limit time.Duration) error {
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	err := p.Stop(limit)
	said := tail(n.logFile())
	if i := strings.LastIndex(said, lifeBegins); err != nil && i >= 0 && strings.Count(said[i:], "\n") == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", n.id, err)
	}
	return nil
}

// lifeBegins is what the line begins with that start writes to a node's log.
const lifeBegins = "==== life "

// pause stops the process where it is, resume lets it go on.
func (n *node) pause() error  { return n.signal(syscall.SIGSTOP, true) }
func (n *node) resume() error { return n.signal(syscall.SIGCONT, false) }

func (n *node) signal(s os.Signal, paused bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil || !n.process.Alive() {
		return nil
	}
	n.paused = paused
	return n.process.Signal(s)
}

// setClock puts the node's wall clock off, also that of its next processes.
func (n *node) setClock(off time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.world.clock = off
	if n.process == nil || !n.process.Alive() || n.process.clock == nil {
		return nil
	}
	return n.process.clock.set(off)
}

// cpu is what the process has used of the processors.
func (n *node) cpu() (time.Duration, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return processCPU(n.process.PID)
}

// processCPU reads user and system time from /proc/PID/schedstat, in
// nanoseconds, summed over threads.
func processCPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited, slices int64
		if _, err := fmt.Sscan(string(b), &ran, &waited, &slices); err != nil {
			return 0, fmt.Errorf("%s: %w", task, err)
		}
		sum += ran
	}
	return time.Duration(sum), nil
}

// powerCut ends the process as a power cut would: what was not synced is gone,
// and when it starts again it is another boot of its machine.
func (n *node) powerCut() error {
	n.kill()
	after := n.volume.file + ".after"
	if err := n.volume.snapshot(after); err != nil {
		return err
	}
	// Unmounting writes what is left to the old file, which nobody reads again.
	if err := run("umount", n.volume.dir); err != nil {
		return err
	}
	if err := os.Rename(after, n.volume.file); err != nil {
		return err
	}
	n.world.boot = filepath.Join(n.dir, "boot_id")
	b, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.world.boot, b, 0o600); err != nil {
		return err
	}
	return n.volume.mount()
}
