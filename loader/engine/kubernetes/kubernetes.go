// Package kubernetes is the engine that runs tasks as the pods of an Indexed
// Job (batch/v1, Kubernetes 1.33 and later), one completion index a split.
//
// It speaks to the cluster by kubectl, so whatever a person's kubectl can reach
// it can. The Job is text from job.yaml.tmpl, one object: the task list goes
// along as an annotation that the pods see as a file. Exit codes of tasks are
// wired into the podFailurePolicy: 3, 4, 5 and 8 fail an index at once, anything
// else is tried again. The engine follows the attempt folders in the root; the
// Job only tells that nothing more is coming.
//
// A Job carries a label made of the root and the plan. A driver that comes back
// after it died finds the Job, if that still runs, and follows it; what it didn't
// carry out becomes another. A Job is named by its content, so that one that was
// asked for twice is made once.
package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"time"

	"sawlog/loader"
	"sawlog/loader/sink"
)

// Settings say where pods run and what they are made of.
type Settings struct {
	Kubectl        []string // default: kubectl
	Context        string   // of kubectl's configuration; empty = its current one
	Namespace      string   // empty = that of the context
	Image          string
	Command        []string // of the image that is the sawlog binary; default: sawlog
	ServiceAccount string   // of the pods; they get no token of it
	HostNetwork    bool     // the pods use the network of their node
	Mounts         []Mount
}

// Mount is a secret or a config map that pods see as files in Path, where the
// job names them: keytabs, passwords, Hadoop's configuration.
type Mount struct {
	Secret    string
	ConfigMap string
	Path      string
}

// Engine runs tasks on a Kubernetes cluster.
type Engine struct {
	Settings
	Sink   sink.Sink // the root, as this process reaches it
	Logger *slog.Logger
	Poll   time.Duration // between two looks; default 2 s
}

// Run carries out the work, as one Job unless it has more than 10,000 splits.
func (e *Engine) Run(ctx context.Context, w loader.Work) error {
	if len(e.Kubectl) == 0 {
		e.Kubectl = []string{"kubectl"}
	}
	if len(e.Command) == 0 {
		e.Command = []string{"sawlog"}
	}
	for splits := range slices.Chunk(w.Splits, mostTasks) {
		part := w
		part.Splits = splits
		if err := e.run(ctx, &part); err != nil {
			return err
		}
	}
	return nil
}

// run follows what a driver that died has left running, and has the rest carried
// out.
func (e *Engine) run(ctx context.Context, w *loader.Work) error {
	list, err := loader.NewTaskList(e.Sink, w)
	if err != nil {
		return err
	}
	watch := loader.Watch{Sink: e.Sink, Logger: e.Logger, Poll: e.Poll}
	if err := watch.Begin(w); err != nil {
		return err
	}
	running, err := e.running(ctx, list.Tag())
	if err != nil {
		return err
	}
	for _, j := range running {
		e.log().Info("the Job runs already: following it", "job", j.name)
		err := watch.Follow(ctx, j)
		if ctx.Err() != nil || err != nil && loader.ExitCode(err) != loader.ExitUnavailable {
			return err
		}
	}
	if list.Splits = watch.Left(); len(list.Splits) == 0 {
		return nil
	}
	name, text, err := render(e.Settings, w, list)
	if err != nil {
		return err
	}
	j := &job{e, name}
	// Not cut short: a Job that was half asked for could come later.
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTime)
	defer cancel()
	if err := j.create(asked, text); err != nil {
		return err
	}
	return watch.Follow(ctx, j)
}

// running are the Jobs of a tag that have not ended.
func (e *Engine) running(ctx context.Context, tag string) (jobs []*job, err error) {
	raw, err := e.kubectl(ctx, nil, "get", "jobs", "-l", workLabel+"="+tag, "-o", "json")
	if err != nil {
		return nil, err
	}
	var have struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   jobStatus
		}
	}
	if err := json.Unmarshal(raw, &have); err != nil {
		return nil, fmt.Errorf("kubectl get jobs: %w", err)
	}
	for _, item := range have.Items {
		if ended, _ := item.Status.end(); !ended {
			jobs = append(jobs, &job{e, item.Metadata.Name})
		}
	}
	return jobs, nil
}

// workLabel is the label that job.yaml.tmpl gives a Job its tag in.
const workLabel = "sawlog/work"

// createTime is how long it may take to make a Job.
const createTime = time.Minute

// job is one Job on the cluster.
type job struct {
	e    *Engine
	name string
}

// kubectl runs one command and gives its output.
func (e *Engine) kubectl(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	full := slices.Clone(e.Kubectl)
	if e.Context != "" {
		full = append(full, "--context", e.Context)
	}
	if e.Namespace != "" {
		full = append(full, "--namespace", e.Namespace)
	}
	full = append(full, args...)
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &said
	err := cmd.Run()
	switch text := strings.TrimSpace(said.String()); {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, &loader.Error{
			Code: loader.ExitUsage, Msg: "kubernetes engine", Err: err,
			Hint: "install kubectl, or say under run.kubernetes.kubectl how it is called",
		}
	default:
		return nil, &loader.Error{Code: codeOf(text), Msg: fmt.Sprintf("kubectl %s: %s", args[0], cmp.Or(text, err.Error()))}
	}
}

// codeOf is the exit code for what kubectl says: it names the API's reason in
// brackets.
func codeOf(said string) int {
	for code, reasons := range map[int][]string{
		loader.ExitNotFound: {"(NotFound)"},
		loader.ExitAuth:     {"(Forbidden)", "(Unauthorized)", "must be logged in"},
		loader.ExitConflict: {"(AlreadyExists)", "(Invalid)", "(BadRequest)", "error validating"},
		loader.ExitUsage:    {"does not exist", "unknown flag"}, // a context, a flag
	} {
		if slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(said, r) }) {
			return code
		}
	}
	return loader.ExitUnavailable
}

// create makes the Job. One of the same name is the same: if it still runs it is
// followed, if it has ended it is replaced.
func (j *job) create(ctx context.Context, text []byte) error {
	const tries = 5
	var err error
	for try := range tries {
		if _, err = j.e.kubectl(ctx, text, "create", "-f", "-"); err == nil {
			return nil
		}
		there := strings.Contains(err.Error(), "(AlreadyExists)")
		if !there && loader.ExitCode(err) != loader.ExitUnavailable {
			return err
		}
		if there {
			state, look := j.State(ctx)
			if look == nil && !state.Ended {
				j.e.log().Info("the Job runs already: following it", "job", j.name)
				return nil
			}
			if err = look; err == nil {
				err = j.Kill(ctx)
			}
			if err != nil && loader.ExitCode(err) != loader.ExitUnavailable {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try+1) * time.Second):
		}
	}
	return err
}

func (e *Engine) log() *slog.Logger {
	if e.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Logger
}

// Kill deletes the Job with its pods.
func (j *job) Kill(ctx context.Context) error {
	_, err := j.e.kubectl(ctx, nil, "delete", "job", j.name, "--ignore-not-found", "--cascade=foreground", "--wait", "--timeout=50s")
	return err
}

// State asks for the conditions of the Job.
func (j *job) State(ctx context.Context) (loader.JobState, error) {
	raw, err := j.e.kubectl(ctx, nil, "get", "job", j.name, "-o", "json")
	if loader.ExitCode(err) == loader.ExitNotFound {
		return loader.JobState{Ended: true, Text: "deleted", Err: &loader.Error{
			Code: loader.ExitUnavailable, Msg: "Job " + j.name + " was deleted before it had ended",
		}}, nil
	}
	if err != nil {
		return loader.JobState{Text: "unknown"}, err
	}
	var have struct{ Status jobStatus }
	if err := json.Unmarshal(raw, &have); err != nil {
		return loader.JobState{}, fmt.Errorf("kubectl get job: %w", err)
	}
	s := have.Status
	state := loader.JobState{Text: fmt.Sprintf("%d active, %d succeeded, %d failed", s.Active, s.Succeeded, s.Failed)}
	var why string
	if state.Ended, why = s.end(); why != "" {
		state.Err = j.failure(ctx, why)
	}
	return state, nil
}

// jobStatus is what is looked at of a Job's status.
type jobStatus struct {
	Active, Succeeded, Failed int
	Conditions                []struct{ Type, Status, Reason, Message string }
}

// end tells whether the Job has ended, and why it failed.
func (s *jobStatus) end() (ended bool, why string) {
	for _, c := range s.Conditions {
		switch {
		case c.Status != "True":
		case c.Type == "Complete":
			ended = true
		case c.Type == "Failed":
			ended, why = true, c.Reason+": "+c.Message
		}
	}
	return ended, why
}

// failure says why a Job failed: the end of a pod that tells most.
func (j *job) failure(ctx context.Context, why string) error {
	e := &loader.Error{
		Code: loader.ExitUnavailable, Msg: fmt.Sprintf("Job %s failed: %s", j.name, why),
		Hint: fmt.Sprintf("kubectl logs -l batch.kubernetes.io/job-name=%s --prefix tells more", j.name),
	}
	raw, err := j.e.kubectl(ctx, nil, "get", "pods", "-l", "batch.kubernetes.io/job-name="+j.name, "-o", "json")
	var pods podList
	if err != nil || json.Unmarshal(raw, &pods) != nil {
		return e
	}
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			t := c.State.Terminated
			if t == nil || t.ExitCode == 0 {
				continue
			}
			final := slices.Contains(permanent, t.ExitCode)
			if !final && e.Err != nil {
				continue
			}
			e.Err = fmt.Errorf("pod %s ended with %d (%s): %s", pod.Metadata.Name, t.ExitCode, t.Reason, lastLine(t.Message))
			if final {
				e.Code = t.ExitCode
				return e
			}
		}
	}
	return e
}

// permanent are the exit codes of a task that another attempt would end with, too.
var permanent = []int{loader.ExitNotFound, loader.ExitConflict, loader.ExitAuth, loader.ExitMismatch}

// podList is what is looked at of pods.
type podList struct {
	Items []struct {
		Metadata struct{ Name string }
		Status   struct {
			ContainerStatuses []struct {
				State struct {
					Terminated *struct {
						ExitCode        int
						Reason, Message string
					}
				}
			}
		}
	}
}

// lastLine is what a task said last: its error, where it told one.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		var told loader.ExecLine
		if json.Unmarshal([]byte(line), &told) == nil && told.Error != nil {
			return told.Error.Msg
		}
	}
	return lines[len(lines)-1]
}
