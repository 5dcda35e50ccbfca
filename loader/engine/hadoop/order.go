package hadoop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sawlog/loader"
)

// order is a call of the command that submits.
type order struct {
	command, args []string
	env           []string          // beside that of this process
	secrets       map[string]string // of the application's credentials, by name
}

// order prepares the call, and tells tasks of the keytab that goes along.
func (r *run) order(list *loader.TaskList) (*order, error) {
	o := &order{command: r.command()}
	switch {
	case r.Login != nil:
		var err error
		if o.env, err = r.Login.env(os.Getenv); err != nil {
			return nil, err
		}
	case r.work.Access.User != "":
		o.env = []string{"HADOOP_USER_NAME=" + r.work.Access.User}
	}
	if r.Login == nil || !r.SendKeytab {
		return o, nil
	}
	keytab, secrets, err := r.Login.Pack()
	if err != nil {
		return nil, &loader.Error{Code: loader.ExitAuth, Msg: "hadoop engine", Err: err}
	}
	o.secrets = secrets
	list.Task.Access.Keytab, list.Task.Access.Principal = keytab, r.Login.Principal
	return o, nil
}

// secretsPath is the command's name for the file of secrets.
const secretsPath = "/dev/fd/3"

// nameless is a file of JSON in memory that only who has it open can read: it has
// no name and leaves nothing behind, whoever dies.
func nameless(secrets map[string]string) (*os.File, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("sawlog", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "secrets")
	if _, err = file.WriteAt(text, 0); err != nil { // who reads begins at the start
		_ = file.Close() // the error is the one to report
		return nil, err
	}
	return file, nil
}

// call runs the command that submits. It dies with this process, so that a driver
// that is killed leaves nobody behind who submits later.
func (o *order) call(ctx context.Context, log *slog.Logger) error {
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	full := slices.Concat(o.command, o.args)
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	cmd.Env = append(os.Environ(), o.env...)
	if len(o.secrets) > 0 {
		file, err := nameless(o.secrets)
		if err != nil {
			return &loader.Error{Code: loader.ExitFailed, Msg: "hadoop engine: secrets of the application", Err: err}
		}
		defer func() { _ = file.Close() }() // nobody else knows it
		cmd.ExtraFiles = []*os.File{file}   // secretsPath
	}
	// A group of its own: Ctrl-C is for this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	log.Debug("submitting", "command", full)
	err := cmd.Run()
	log.Debug("the command has ended", "err", err, "said", said.String())
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &loader.Error{Code: loader.ExitUnavailable, Msg: fmt.Sprintf("%s did not submit within %v: %s", o.command[0], submitTime, why(said.String()))}
	case errors.Is(err, exec.ErrNotFound):
		return &loader.Error{
			Code: loader.ExitUsage, Msg: "hadoop engine", Err: err,
			Hint: "install Hadoop's client, or say under run.hadoop.command how Hadoop Streaming is called, such as [hadoop, jar, /path/of/hadoop-streaming.jar]",
		}
	default:
		return &loader.Error{Code: codeOf(said.String()), Msg: fmt.Sprintf("%s: %s", strings.Join(o.command, " "), why(said.String())), Err: err}
	}
}
