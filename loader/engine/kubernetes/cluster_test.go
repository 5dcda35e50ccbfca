package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"sawlog/broker/compat/peer"
)

// cluster is a Job controller and a kubelet for tests: pods are processes. It
// honours what a Job of ours may say (completions, parallelism, retries, the
// podFailurePolicy) and does on purpose what clusters do by accident. kubectl is
// this test binary, which hands it its arguments.
type cluster struct {
	t    *testing.T
	twin bool // two pods of an index at a time, as when a node was thought gone
	// harm happens to the first pod of each index once it runs: "evict", "oom",
	// "sleep" (it stops until wake).
	harm string

	mu     sync.Mutex
	jobs   map[string]*fakeJob
	made   int // Jobs ever made
	asleep []*os.Process
	pods   sync.WaitGroup
	fail   func(args []string) string // what kubectl is to say instead; "" = nothing
}

const kubectlEnv = "SAWLOG_TEST_KUBECTL"

// kubectlMain is what the test binary does when it is called as kubectl.
func kubectlMain(addr string) {
	in, _ := io.ReadAll(os.Stdin)
	body, _ := json.Marshal(map[string]any{"args": os.Args[1:], "stdin": string(in)})
	resp, err := http.Post(addr, "application/json", bytes.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, "Unable to connect to the server:", err)
		os.Exit(1)
	}
	var a answer
	_ = json.NewDecoder(resp.Body).Decode(&a)
	_ = resp.Body.Close()
	fmt.Print(a.Out)
	if a.Err != "" {
		fmt.Fprintln(os.Stderr, a.Err)
		os.Exit(1)
	}
}

type answer struct{ Out, Err string }

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, jobs: map[string]*fakeJob{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Args  []string
			Stdin string
		}
		_ = json.NewDecoder(r.Body).Decode(&ask)
		out, failed := c.kubectl(ask.Args, ask.Stdin)
		_ = json.NewEncoder(w).Encode(answer{out, failed})
	}))
	t.Setenv(kubectlEnv, server.URL)
	t.Cleanup(func() {
		server.Close()
		c.wake()
		c.pods.Wait()
	})
	return c
}

func (c *cluster) kubectl(args []string, stdin string) (out, failed string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if said := c.fail(args); said != "" {
			return "", said
		}
	}
	switch args[0] {
	case "create":
		return "", c.create([]byte(stdin))
	case "get":
		if args[1] == "pods" {
			_, name, _ := strings.Cut(args[3], "=")
			return c.jobs[name].describePods(), ""
		}
		if j := c.jobs[args[2]]; j != nil {
			return j.describe(), ""
		}
		return "", fmt.Sprintf("Error from server (NotFound): jobs.batch %q not found", args[2])
	case "delete":
		j := c.jobs[args[2]]
		delete(c.jobs, args[2])
		if j == nil {
			return "", ""
		}
		j.deleted = true
		var ends []chan struct{}
		for _, p := range j.pods {
			if p.end != nil {
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
				ends = append(ends, p.end)
			}
		}
		c.mu.Unlock()
		for _, end := range ends {
			<-end
		}
		c.mu.Lock()
		return "", ""
	}
	return "", "error: unknown command"
}

// jobManifest is what the controller reads of a Job.
type jobManifest struct {
	Metadata struct{ Name string }
	Spec     struct {
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

type fakeJob struct {
	c       *cluster
	m       jobManifest
	pods    []*fakePod
	done    map[int]bool
	failed  map[int]int // failures that count, by index
	lost    []int       // indexes that failed for good
	why     string
	deleted bool
	room    string
}

type fakePod struct {
	name    string
	index   int
	cmd     *exec.Cmd
	end     chan struct{} // nil once it has ended
	code    int
	message string
	evicted bool
}

func (c *cluster) create(text []byte) string {
	var m jobManifest
	if err := yaml.Unmarshal(text, &m); err != nil {
		return "error: error parsing: " + err.Error()
	}
	if wrong := checkManifest(c.t, text); len(wrong) > 0 {
		return "Error from server (BadRequest): " + strings.Join(wrong, "; ")
	}
	if c.jobs[m.Metadata.Name] != nil {
		return fmt.Sprintf("Error from server (AlreadyExists): jobs.batch %q already exists", m.Metadata.Name)
	}
	room, err := os.MkdirTemp(c.t.TempDir(), "job")
	if err == nil {
		err = os.WriteFile(filepath.Join(room, "tasks.json"), []byte(m.Spec.Template.Metadata.Annotations["sawlog/tasks"]), 0o600)
	}
	if err != nil {
		return err.Error()
	}
	j := &fakeJob{c: c, m: m, done: map[int]bool{}, failed: map[int]int{}, room: room}
	c.jobs[m.Metadata.Name] = j
	c.made++
	j.fill()
	return ""
}

// fill starts pods until enough run.
func (j *fakeJob) fill() {
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
		if j.c.twin {
			j.start(i)
		}
	}
}

func (j *fakeJob) start(index int) {
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
	p := &fakePod{name: fmt.Sprintf("%s-%d-%d", j.m.Metadata.Name, index, len(j.pods)), index: index, end: make(chan struct{})}
	p.cmd = exec.Command(peer.Binary(j.c.t), args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	p.cmd.Stdout, p.cmd.Stderr = &said, &said
	first := !slices.ContainsFunc(j.pods, func(o *fakePod) bool { return o.index == index })
	j.pods = append(j.pods, p)
	started := make(chan error)
	j.c.pods.Go(func() {
		err := p.cmd.Start()
		if err == nil && first {
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
func (j *fakeJob) harm(p *fakePod) {
	switch j.c.harm {
	case "evict":
		p.evicted = true
		_ = p.cmd.Process.Kill()
	case "oom":
		_ = p.cmd.Process.Kill()
	case "sleep":
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		j.c.asleep = append(j.c.asleep, p.cmd.Process)
	}
}

// wake lets pods go on that sleep.
func (c *cluster) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.asleep {
		_ = p.Signal(syscall.SIGCONT)
	}
	c.asleep = nil
}

// ended counts a pod by the policy of its Job.
func (j *fakeJob) ended(p *fakePod) {
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
		for _, o := range j.pods {
			if o.end != nil {
				_ = o.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}
}

func (j *fakeJob) describe() string {
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
	out, _ := json.Marshal(map[string]any{"status": status})
	return string(out)
}

func (j *fakeJob) describePods() string {
	var items []any
	for _, p := range j.pods {
		state := map[string]any{}
		if p.end == nil {
			state["terminated"] = map[string]any{"exitCode": p.code, "reason": "Error", "message": p.message}
		}
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": p.name},
			"status":   map[string]any{"containerStatuses": []any{map[string]any{"state": state}}},
		})
	}
	out, _ := json.Marshal(map[string]any{"items": items})
	return string(out)
}

// idle wants no pod to run any more, but for those that sleep.
func (c *cluster) idle(t *testing.T) {
	t.Helper()
	c.wake()
	over := make(chan struct{})
	go func() {
		c.pods.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Error("pods still run")
	}
}
