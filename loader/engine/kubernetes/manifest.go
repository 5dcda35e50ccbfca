package kubernetes

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	"sawlog/loader"
)

//go:embed job.yaml.tmpl
var jobText string

var jobTemplate = template.Must(template.New("job").Funcs(template.FuncMap{"json": quoted}).Parse(jobText))

// quoted is a value as JSON, which is YAML, too.
func quoted(v any) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return string(bytes.TrimSpace(out.Bytes())), err
}

// manifest is what the template of a Job is filled in with.
type manifest struct {
	Settings
	Name        string
	Tag         string // of the work: what a driver that comes back looks for
	Job         string
	Plan        string
	Root        string
	Tasks       string // the task list: task i is that of completion index i
	Completions int
	Parallelism int
	Retries     int
	Memory      int64 // bytes of a container
	Deadline    int64 // seconds of a pod; 0 = none
}

const (
	// A task holds to its memory but for its code and stacks.
	overhead = 128 << 20
	// A task ends by its own timeout; the pod's is for one that can't.
	lateness = time.Minute
	// Kubernetes runs at most so many pods of an Indexed Job at a time.
	mostPods = 10_000
	// mostTasks keeps the list well below the 256 KiB of a pod's annotations.
	mostTasks = 10_000
)

// render is the Job of a task list. Its name is made of all that stands in it,
// so that a Job of that name is this one.
func render(s Settings, w *loader.Work, list *loader.TaskList) (name string, text []byte, err error) {
	tasks, err := loader.Canonical(list)
	if err != nil {
		return "", nil, err
	}
	m := manifest{
		Settings: s, Tag: list.Tag(), Job: w.Plan.Job, Plan: w.PlanID, Root: w.Root, Tasks: string(tasks),
		Completions: len(list.Splits), Parallelism: min(w.Parallelism, len(list.Splits), mostPods),
		Retries: w.Retries, Memory: w.Memory + overhead,
	}
	if w.Timeout > 0 {
		m.Deadline = int64((w.Timeout + lateness) / time.Second)
	}
	var out bytes.Buffer
	if err := jobTemplate.Execute(&out, m); err != nil {
		return "", nil, fmt.Errorf("kubernetes engine: %w", err)
	}
	sum := sha256.Sum256(out.Bytes())
	m.Name = fmt.Sprintf("sawlog-%.8s-%s", w.PlanID, hex.EncodeToString(sum[:5]))
	out.Reset()
	err = jobTemplate.Execute(&out, m)
	return m.Name, out.Bytes(), err
}
