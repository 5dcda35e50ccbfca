package loader

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"sawlog/loader/sink"
)

// TaskList is work as an engine hands it to machines of a cluster: what its
// tasks have in common, and their splits. `sawlog task exec --plan FILE --index N`
// reads it, as a cluster manager that numbers its tasks wants it; Line gives the
// same as lines of standard input.
type TaskList struct {
	Sawlog string   `json:"sawlog"` // "tasks/1"
	Task   ExecSpec `json:"task"`   // without its split
	Splits []int    `json:"splits"` // task i carries out Splits[i]
}

const taskListKind = "tasks/1"

// NewTaskList freezes the plan of the work in its stage, where machines that
// share only the root can read it, and lists its tasks. They leave error.json
// where they fail, and read from leaders: the rack of this process isn't theirs.
func NewTaskList(s sink.Sink, w *Work) (*TaskList, error) {
	at, err := freeze(s, w)
	if err != nil {
		return nil, err
	}
	l := &TaskList{Sawlog: taskListKind, Splits: w.Splits, Task: ExecSpec{
		V: 1, Root: w.Root, Access: w.Access, PlanID: w.PlanID, PlanAt: at, Source: w.Source, Memory: w.Memory, FetchBytes: w.FetchBytes, Rate: w.Rate,
		Timeout: w.Timeout, Report: true,
	}}
	l.Task.Source.Rack = ""
	return l, nil
}

// ParseTaskList reads a task list; ok is false for a file that is none.
func ParseTaskList(data []byte) (list *TaskList, ok bool, err error) {
	var kind struct {
		Sawlog string `json:"sawlog"`
	}
	if json.Unmarshal(data, &kind) != nil || kind.Sawlog != taskListKind {
		return nil, false, nil
	}
	list = &TaskList{}
	if err := decodeStrict(data, list); err != nil {
		return nil, true, &Error{Code: ExitConflict, Msg: "task list", Err: err}
	}
	return list, true, list.Task.check()
}

// Spec is task i.
func (l *TaskList) Spec(i int) (*ExecSpec, error) {
	if i < 0 || i >= len(l.Splits) {
		return nil, fail(ExitConflict, "the task list has tasks 0 to %d, not %d", len(l.Splits)-1, i)
	}
	spec := l.Task
	spec.Split = l.Splits[i]
	return &spec, nil
}

// Tag is what a cluster manager knows the work by: that of a plan on a root. It
// doesn't hang on how tasks are carried out, nor on which splits are left, so a
// driver that comes back finds by it what another one left running.
func (l *TaskList) Tag() string {
	return fmt.Sprintf("sawlog-%.8s-%.10s", l.Task.PlanID, sum([]byte(l.Task.Root+"\n"+l.Task.PlanAt)))
}

// Lines are the tasks as lines of JSON, one for each.
func (l *TaskList) Lines() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for i := range l.Splits {
		spec, err := l.Spec(i)
		if err == nil {
			err = enc.Encode(spec)
		}
		if err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// Put puts the lines into the stage of their plan, for an engine that hands out
// the lines of a file.
func (l *TaskList) Put(s sink.Sink) (at string, err error) {
	lines, err := l.Lines()
	if err != nil {
		return "", err
	}
	return stageFile(s, l.Task.PlanID, "tasks-"+sum(lines)[:16]+".jsonl", lines)
}

// freeze puts the plan of the work into its stage. It need not be the plan the
// stage is named by: splits may be carried over from that one, or made again with
// another writer.
func freeze(s sink.Sink, w *Work) (at string, err error) {
	data, err := Canonical(w.Plan)
	if err != nil {
		return "", fmt.Errorf("plan of data set %s: %w", w.Plan.Dataset, err)
	}
	return stageFile(s, w.PlanID, "plan-"+sum(data)[:16]+".json", data)
}

// stageFile puts a file named by its content into the stage of a plan, unless it
// is there.
func stageFile(s sink.Sink, planID, name string, data []byte) (at string, err error) {
	dir := path.Join(StagesDir, planID)
	at = path.Join(dir, name)
	switch _, err := s.Stat(at); {
	case err == nil:
		return at, nil
	case !errors.Is(err, sink.ErrNotExist):
		return "", sinkError("", err)
	}
	if err := s.MkdirAll(dir); err != nil {
		return "", sinkError("", err)
	}
	temp := path.Join(dir, newNonce()+StageSuffix)
	if err := sink.Write(s, temp, data); err != nil {
		return "", sinkError("", err)
	}
	return at, sinkError("", s.Rename(temp, at))
}

// thaw reads a plan that freeze wrote.
func thaw(s sink.Sink, at string) (*Plan, error) {
	data, err := s.ReadFile(at)
	if errors.Is(err, sink.ErrNotExist) {
		return nil, &Error{Code: ExitConflict, Msg: "the stage of the plan was swept", Err: err}
	}
	if err != nil {
		return nil, sinkError("plan", err)
	}
	if want := "plan-" + sum(data)[:16] + ".json"; path.Base(at) != want {
		return nil, fail(ExitMismatch, "%s: its content belongs to %s", at, want)
	}
	var p Plan
	if err := decodeStrict(data, &p); err != nil {
		return nil, &Error{Code: ExitMismatch, Msg: at, Err: err}
	}
	return &p, nil
}
