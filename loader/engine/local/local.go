// Package local is the engine that runs tasks as child processes of this one:
// `sawlog task exec --stdin`, niced, and killed when the parent dies.
package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/loader"
)

// Engine runs tasks on this machine.
type Engine struct {
	Command []string // that reads a task spec; default: this executable, task exec --stdin
	Env     []string // of the tasks; nil = this process's
	Spool   string   // local folder for temporary files; empty = the system's
	Nice    int      // added to the tasks' niceness; default 10
	Logger  *slog.Logger
}

const (
	defaultNice = 10
	grace       = 5 * time.Second // between asking a task to end and killing it
	maxLine     = 1 << 20
	keepErrors  = 4 << 10 // of what a task last wrote to standard error
)

// self is the program that runs, also after another release took its file's place:
// a task must be of the release that tells it what to do.
const self = "/proc/self/exe"

// Run carries out the work, one process per attempt.
func (e *Engine) Run(ctx context.Context, w loader.Work) error {
	command := e.Command
	if len(command) == 0 {
		command = []string{self, "task", "exec", "--stdin"}
	}
	return w.Each(ctx, func(ctx context.Context, split int, attempt string) error {
		spec, err := json.Marshal(loader.ExecSpec{
			V: 1, Root: w.Root, Access: w.Access, PlanID: w.PlanID, Plan: w.Plan, Split: split, Attempt: attempt, Source: w.Source,
			Memory: w.Memory, FetchBytes: w.FetchBytes, Rate: w.Rate, Spool: e.Spool,
		})
		if err != nil {
			return fmt.Errorf("local engine: %w", err)
		}
		return e.attempt(ctx, command, spec, split, w.Progress)
	})
}

// attempt runs one process to its end.
func (e *Engine) attempt(ctx context.Context, command []string, spec []byte, split int, progress func(loader.TaskProgress)) error {
	// The kernel kills the child when the thread that started it ends, so this
	// goroutine keeps its thread until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = e.Env
	cmd.Stdin = bytes.NewReader(spec)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("local engine: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("local engine: %w", err)
	}
	nice := e.Nice
	if nice == 0 {
		nice = defaultNice
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, nice); err != nil && e.Logger != nil {
		e.Logger.Debug("task keeps its priority", "split", split, "err", err)
	}
	told := read(out, progress)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case told != nil:
		return told.Err(split)
	default:
		return died(split, err, said.String())
	}
}

// read follows what a task prints until it closes its output, and returns the
// error it told.
func read(out io.Reader, progress func(loader.TaskProgress)) *loader.ExecError {
	var told *loader.ExecError
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		var line loader.ExecLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // not ours: a library that prints
		}
		if line.Error != nil {
			told = line.Error
		}
		if line.Progress != nil && progress != nil {
			progress(*line.Progress)
		}
	}
	_, _ = io.Copy(io.Discard, out) // past a line too long: the task must not block on its output
	return told
}

// died is the error of a task that ended without telling why: it crashed or was
// killed, and another attempt may do better.
func died(split int, err error, said string) error {
	code := loader.ExitUnavailable
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		switch exit.ExitCode() {
		case loader.ExitNotFound, loader.ExitConflict, loader.ExitAuth, loader.ExitMismatch:
			code = exit.ExitCode()
		}
	}
	msg := fmt.Sprintf("split %d: task died (%v)", split, err)
	if said = strings.TrimSpace(said); said != "" {
		msg += ": " + said
	}
	return &loader.Error{Code: code, Msg: msg}
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - keepErrors; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }
