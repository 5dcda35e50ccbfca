package kubetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"go.yaml.in/yaml/v4"
)

// manifest is what the controller reads of a Job.
type manifest struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Completions, Parallelism int
		BackoffLimitPerIndex     int `yaml:"backoffLimitPerIndex"`
		MaxFailedIndexes         int `yaml:"maxFailedIndexes"`
		PodFailurePolicy         struct {
			Rules []struct {
				Action      string
				OnExitCodes *struct {
					Values []int
				} `yaml:"onExitCodes"`
			}
		} `yaml:"podFailurePolicy"`
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				Containers []struct{ Command, Args []string }
			}
		}
	}
}

// job is a Job and its pods.
type job struct {
	c       *Cluster
	m       manifest
	text    []byte
	room    string // its files
	pods    []*pod
	done    map[int]bool
	failed  map[int]int // failures that count, by index
	lost    []int       // indexes that failed for good
	why     string      // it failed; empty = it didn't
	deleted bool
}

type pod struct {
	name    string
	index   int
	cmd     *exec.Cmd
	end     chan struct{} // closed, and nil, once it has ended
	code    int
	message string
	evicted bool
}

func newJob(c *Cluster, text []byte) (*job, error) {
	j := &job{c: c, text: text, done: map[int]bool{}, failed: map[int]int{}}
	if err := yaml.Unmarshal(text, &j.m); err != nil {
		return nil, err
	}
	var err error
	if j.room, err = os.MkdirTemp(c.t.TempDir(), "job"); err != nil {
		return nil, err
	}
	return j, os.WriteFile(filepath.Join(j.room, "tasks.json"), []byte(j.m.Spec.Template.Metadata.Annotations["sawlog/tasks"]), 0o600)
}

// fill starts pods until enough run.
func (j *job) fill() {
	active := map[int]bool{}
	for _, p := range j.pods {
		if p.end != nil && !j.done[p.index] {
			active[p.index] = true
		}
	}
	for i := range j.m.Spec.Completions {
		if len(active) >= j.m.Spec.Parallelism || j.why != "" || j.deleted {
			return
		}
		if j.done[i] || active[i] || slices.Contains(j.lost, i) {
			continue
		}
		active[i] = true
		j.start(i)
		if j.c.c.Twin {
			j.start(i)
		}
	}
}

func (j *job) start(index int) {
	box := j.m.Spec.Template.Spec.Containers[0]
	spool, err := os.MkdirTemp(j.room, "spool")
	if err != nil {
		j.c.t.Error(err)
	}
	args := slices.Clone(box.Args)
	for i := range args {
		switch args[i] {
		case "$(JOB_COMPLETION_INDEX)":
			args[i] = strconv.Itoa(index)
		case "/sawlog/tasks/tasks.json":
			args[i] = filepath.Join(j.room, "tasks.json")
		case "/sawlog/spool":
			args[i] = spool
		}
	}
	p := &pod{name: fmt.Sprintf("%s-%d-%d", j.m.Metadata.Name, index, len(j.pods)), index: index, end: make(chan struct{})}
	p.cmd = exec.Command(j.c.binary, args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	p.cmd.Stdout, p.cmd.Stderr = &said, &said
	first := !slices.ContainsFunc(j.pods, func(o *pod) bool { return o.index == index })
	j.pods = append(j.pods, p)
	started := make(chan error)
	j.c.pods.Go(func() {
		err := p.cmd.Start()
		if err == nil && first && index >= j.c.c.From {
			j.harm(p)
		}
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the state says how it ended
		}
		j.c.mu.Lock()
		defer j.c.mu.Unlock()
		close(p.end)
		p.end, p.code, p.message = nil, p.cmd.ProcessState.ExitCode(), said.String()
		if p.code < 0 {
			p.code = 128 + int(p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
		j.ended(p)
		j.fill()
	})
	if err := <-started; err != nil {
		j.c.t.Error(err)
	}
}

// harm does to a pod what the test asked for.
func (j *job) harm(p *pod) {
	switch j.c.c.Harm {
	case Evict:
		p.evicted = true
		_ = p.cmd.Process.Kill() // it may have ended already
	case Kill:
		_ = p.cmd.Process.Kill()
	case Sleep:
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		j.c.asleep = append(j.c.asleep, p.cmd.Process)
	}
}

// signal goes to all pods that run; their ends are returned.
func (j *job) signal(s os.Signal) (ends []chan struct{}) {
	for _, p := range j.pods {
		if p.end != nil {
			_ = p.cmd.Process.Signal(s) // it may have ended already
			ends = append(ends, p.end)
		}
	}
	return ends
}

// ended counts a pod by the policy of its Job.
func (j *job) ended(p *pod) {
	if p.code == 0 {
		j.done[p.index] = true
		return
	}
	if p.evicted || j.deleted {
		return
	}
	action := "Count"
	for _, r := range j.m.Spec.PodFailurePolicy.Rules {
		if r.OnExitCodes != nil && slices.Contains(r.OnExitCodes.Values, p.code) {
			action = r.Action
			break
		}
	}
	if j.failed[p.index]++; action == "Count" && j.failed[p.index] <= j.m.Spec.BackoffLimitPerIndex || j.done[p.index] {
		return
	}
	j.lost = append(j.lost, p.index)
	if len(j.lost) > j.m.Spec.MaxFailedIndexes && j.why == "" {
		j.why = "MaxFailedIndexesExceeded"
		j.signal(syscall.SIGTERM)
	}
}

// status is what the API says of a Job.
func (j *job) status() map[string]any {
	active := 0
	for _, p := range j.pods {
		if p.end != nil {
			active++
		}
	}
	status := map[string]any{"active": active, "succeeded": len(j.done), "failed": len(j.lost)}
	switch {
	case j.why != "" && active == 0:
		status["conditions"] = []any{map[string]any{"type": "Failed", "status": "True", "reason": j.why, "message": "Job has exceeded the number of failed indexes"}}
	case len(j.done) == j.m.Spec.Completions && j.why == "":
		status["conditions"] = []any{map[string]any{"type": "Complete", "status": "True"}}
	}
	return status
}

// describePods is what the API says of the pods of a Job.
func (j *job) describePods() map[string]any {
	items := []any{}
	for _, p := range j.pods {
		state := map[string]any{}
		if p.end == nil {
			state["terminated"] = map[string]any{"exitCode": p.code, "reason": "Error", "message": p.message}
		}
		items = append(items, map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": p.name, "namespace": "default"},
			"status": map[string]any{"containerStatuses": []any{map[string]any{"state": state}}},
		})
	}
	return map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
}
