package loader

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"time"

	"sawlog/consumer"
	"sawlog/loader/sink"
)

// ExecSpec is the task spec `sawlog task exec --stdin` reads, as JSON: one split
// of one plan. The plan stands in it, or is read from PlanAt, or from the ledger
// of Root by its id. Secrets stand in it as names of files on the node.
type ExecSpec struct {
	V          int             `json:"v"` // 1
	Root       string          `json:"root"`
	Access     sink.Access     `json:"access,omitzero"` // how the root is reached
	PlanID     string          `json:"plan_id"`
	Plan       *Plan           `json:"plan,omitempty"`
	PlanAt     string          `json:"plan_at,omitempty"` // path of the plan under the root
	Split      int             `json:"split"`
	Attempt    string          `json:"attempt,omitempty"` // empty = a new one
	Source     consumer.Config `json:"source"`
	Memory     int64           `json:"memory"` // bytes of this task; 0 = 512 MiB
	FetchBytes int             `json:"fetch_bytes,omitempty"`
	Rate       int64           `json:"rate,omitempty"`    // bytes a second it may fetch; 0 = no limit
	Spool      string          `json:"spool,omitempty"`   // local folder for temporary files; empty = the system's
	Timeout    time.Duration   `json:"timeout,omitempty"` // of the attempt, in nanoseconds; 0 = none
	// Report has a failed attempt leave error.json in its folder, for a driver
	// that sees neither its output nor its exit code.
	Report bool `json:"report,omitempty"`
}

// ReadExecSpec reads a task spec: one line of JSON, with the byte offset and the
// tab before it that Hadoop Streaming puts there when it isn't told otherwise.
func ReadExecSpec(r io.Reader) (*ExecSpec, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, &Error{Code: ExitUnavailable, Msg: "task spec", Err: err}
	}
	if key, rest, keyed := bytes.Cut(data, []byte{'\t'}); keyed && len(bytes.Trim(key, "0123456789")) == 0 {
		data = rest
	}
	var s ExecSpec
	if err := decodeStrict(data, &s); err != nil {
		e := &Error{Code: ExitConflict, Msg: "task spec", Err: err}
		return nil, e.hint("one task is one line of JSON: with NLineInputFormat mapreduce.input.lineinputformat.linespermap is 1")
	}
	return &s, s.check()
}

func (s *ExecSpec) check() error {
	if s.V != 1 {
		return fail(ExitConflict, "task spec is of version %d, this binary knows 1", s.V)
	}
	return nil
}

// Exec carries out one task in a process of its own and tells how it goes. The
// exit code it returns is 0, or 6 when another attempt may do better, or 3, 4, 5,
// 8 when it would not; never 1 or 2, which only a crash gives.
func Exec(ctx context.Context, s *ExecSpec, open func(uri string, access sink.Access) (sink.Sink, error), tell Teller, logger *slog.Logger) int {
	if s.Memory <= 0 {
		s.Memory = defaultMemory
	}
	if s.Attempt == "" {
		s.Attempt = NewAttempt()
	}
	// The collector works harder near the limit, not only at half as much again
	// as what lives.
	debug.SetMemoryLimit(s.Memory - s.Memory/16)
	debug.SetGCPercent(50)
	root, err := open(s.Root, s.Access)
	if err != nil {
		return ended(s, nil, coded(err, ExitConflict), tell, logger)
	}
	res, err := s.exec(ctx, root, tell, logger)
	if err != nil {
		return ended(s, root, err, tell, logger)
	}
	tell.Tell(ExecLine{Result: ResultPath(AttemptDir(res.Plan, res.Split, res.Attempt)), result: res})
	return 0
}

// ended tells why a task failed, to everybody who may listen, and is its exit code.
func ended(s *ExecSpec, root sink.Sink, err error, tell Teller, logger *slog.Logger) int {
	err = at(s.Root, err)
	told := &ExecError{Code: TaskCode(ExitCode(err)), Msg: err.Error(), Gone: errors.Is(err, ErrGone), By: taskHost()}
	if e := (*Error)(nil); errors.As(err, &e) {
		told.Hint = e.Hint
	}
	tell.Tell(ExecLine{Error: told})
	if s.Report && root != nil {
		if err := s.leave(root, told); err != nil {
			logger.Warn("the driver will not learn why the task failed", "err", err)
		}
	}
	return told.Code
}

// TaskCode is the exit code of a task that failed with an error of the given
// code: what cluster managers are set up to understand (see Exec).
func TaskCode(code int) int {
	switch code {
	case ExitUnavailable, ExitNotFound, ExitConflict, ExitAuth, ExitMismatch:
		return code
	case ExitUsage:
		return ExitConflict
	default:
		return ExitUnavailable
	}
}

// taskHost names the attempt as the cluster manager knows it: of Hadoop its
// attempt id, elsewhere the host, which on Kubernetes is the pod.
func taskHost() string {
	if id := os.Getenv("mapreduce_task_attempt_id"); id != "" {
		return id
	}
	host, _ := os.Hostname() // without a name nobody is named
	return host
}

// leave puts the error into the attempt's folder, in one step. An attempt that
// failed before it began has none yet.
func (s *ExecSpec) leave(root sink.Sink, told *ExecError) error {
	data, err := Canonical(told)
	if err != nil {
		return err
	}
	dir := AttemptDir(s.PlanID, s.Split, s.Attempt)
	if err := root.Mkdir(dir); err != nil && !errors.Is(err, sink.ErrExist) {
		return err
	}
	name := path.Join(dir, errorName)
	if err := sink.Write(root, name+StageSuffix, data); err != nil {
		return err
	}
	return root.Rename(name+StageSuffix, name)
}

// exec carries out the task on an open root, in the time it has.
func (s *ExecSpec) exec(ctx context.Context, root sink.Sink, tell Teller, logger *slog.Logger) (*Result, error) {
	if s.Timeout <= 0 {
		return s.carryOut(ctx, root, tell, logger)
	}
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	res, err := s.carryOut(bounded, root, tell, logger)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fail(ExitUnavailable, "split %d: attempt took longer than %v", s.Split, s.Timeout)
	}
	return res, err
}

func (s *ExecSpec) carryOut(ctx context.Context, root sink.Sink, tell Teller, logger *slog.Logger) (*Result, error) {
	plan, err := s.plan(root)
	if err != nil {
		return nil, err
	}
	cluster, err := consumer.Dial(ctx, s.Source)
	if err != nil {
		return nil, coded(err, ExitConflict)
	}
	defer cluster.Close()
	res, err := runTask(ctx, taskConfig{
		cluster: cluster, sink: root, logger: logger, plan: plan, planID: s.PlanID, index: s.Split, attempt: s.Attempt,
		memory: s.Memory, fetch: s.FetchBytes, rate: s.Rate, spool: s.Spool,
		progress: func(p TaskProgress) { tell.Tell(ExecLine{Progress: &p}) },
	})
	if err != nil {
		return nil, coded(err, ExitUnavailable)
	}
	return res, nil
}

// plan is the plan the split is of.
func (s *ExecSpec) plan(root sink.Sink) (*Plan, error) {
	switch {
	case s.Plan != nil:
		return s.Plan, nil
	case s.PlanAt != "":
		return thaw(root, s.PlanAt)
	default:
		return readPlan(root, s.PlanID)
	}
}

// NewAttempt is the name of a new attempt: a random UUID.
func NewAttempt() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
