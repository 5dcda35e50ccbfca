package loader

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"

	"sawlog/consumer"
	"sawlog/loader/sink"
)

// ExecSpec is the task spec `sawlog task exec --stdin` reads, as JSON: one split
// of one plan. The plan stands in it, or is read from the ledger of Root by its
// id.
type ExecSpec struct {
	V          int             `json:"v"` // 1
	Root       string          `json:"root"`
	Access     sink.Access     `json:"access,omitzero"` // how the root is reached
	PlanID     string          `json:"plan_id"`
	Plan       *Plan           `json:"plan,omitempty"`
	Split      int             `json:"split"`
	Attempt    string          `json:"attempt,omitempty"` // empty = a new one
	Source     consumer.Config `json:"source"`
	Memory     int64           `json:"memory"` // bytes of this task; 0 = 512 MiB
	FetchBytes int             `json:"fetch_bytes,omitempty"`
	Rate       int64           `json:"rate,omitempty"`  // bytes a second it may fetch; 0 = no limit
	Spool      string          `json:"spool,omitempty"` // local folder for temporary files; empty = the system's
}

// ExecLine is one line of the JSON lines a task prints to standard output:
// progress, and at last how it ended.
type ExecLine struct {
	Progress *TaskProgress `json:"progress,omitempty"`
	Result   string        `json:"result,omitempty"` // path of result.json under the root
	Error    *ExecError    `json:"error,omitempty"`
}

// ExecError is an Error on its way between processes.
type ExecError struct {
	Code int    `json:"code"`
	Msg  string `json:"msg"`
	Hint string `json:"hint,omitempty"`
}

// ReadExecSpec reads a task spec.
func ReadExecSpec(r io.Reader) (*ExecSpec, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, &Error{Code: ExitUnavailable, Msg: "task spec", Err: err}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var s ExecSpec
	if err := dec.Decode(&s); err != nil {
		return nil, &Error{Code: ExitConflict, Msg: "task spec", Err: err}
	}
	if s.V != 1 {
		return nil, fail(ExitConflict, "task spec is of version %d, this binary knows 1", s.V)
	}
	return &s, nil
}

// Exec carries out one task in a process of its own and prints ExecLines to
// out. The exit code it returns is 0, or 6 when another attempt may do better,
// or 3, 4, 5, 8 when it would not; never 1 or 2, which only a crash gives.
func Exec(ctx context.Context, s *ExecSpec, open func(uri string, access sink.Access) (sink.Sink, error), out io.Writer, logger *slog.Logger) int {
	if s.Memory <= 0 {
		s.Memory = defaultMemory
	}
	// The collector works harder near the limit, not only at half as much again
	// as what lives.
	debug.SetMemoryLimit(s.Memory - s.Memory/16)
	debug.SetGCPercent(50)
	lines := &lineWriter{enc: json.NewEncoder(out)}
	name, err := exec(ctx, s, open, lines, logger)
	if err == nil {
		lines.put(ExecLine{Result: name})
		return 0
	}
	err = at(s.Root, err)
	code := ExitCode(err)
	switch code {
	case ExitUnavailable, ExitNotFound, ExitConflict, ExitAuth, ExitMismatch:
	case ExitUsage:
		code = ExitConflict
	default:
		code = ExitUnavailable
	}
	var e *Error
	hint := ""
	if errors.As(err, &e) {
		hint = e.Hint
	}
	lines.put(ExecLine{Error: &ExecError{Code: code, Msg: err.Error(), Hint: hint}})
	return code
}

func exec(ctx context.Context, s *ExecSpec, open func(uri string, access sink.Access) (sink.Sink, error), lines *lineWriter, logger *slog.Logger) (result string, err error) {
	root, err := open(s.Root, s.Access)
	if err != nil {
		return "", coded(err, ExitConflict)
	}
	plan := s.Plan
	if plan == nil {
		if plan, err = readPlan(root, s.PlanID); err != nil {
			return "", err
		}
	}
	cluster, err := consumer.Dial(ctx, s.Source)
	if err != nil {
		return "", coded(err, ExitConflict)
	}
	defer cluster.Close()
	if s.Attempt == "" {
		s.Attempt = NewAttempt()
	}
	res, err := runTask(ctx, taskConfig{
		cluster: cluster, sink: root, logger: logger, plan: plan, planID: s.PlanID, index: s.Split, attempt: s.Attempt,
		memory: s.Memory, fetch: s.FetchBytes, rate: s.Rate, spool: s.Spool,
		progress: func(p TaskProgress) { lines.put(ExecLine{Progress: &p}) },
	})
	if err != nil {
		return "", coded(err, ExitUnavailable)
	}
	return ResultPath(AttemptDir(res.Plan, res.Split, res.Attempt)), nil
}

// lineWriter prints JSON lines. Nobody may be reading any more; that is no
// reason to stop, for the driver believes only result.json.
type lineWriter struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (w *lineWriter) put(line ExecLine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.enc.Encode(line)
}

// NewAttempt is the name of a new attempt: a random UUID.
func NewAttempt() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
