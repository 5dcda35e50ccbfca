package hadoop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
	"sawlog/loader/engine/enginetest"
)

// cluster is a ResourceManager and an ApplicationMaster for tests: map tasks are
// processes that read their line as Hadoop Streaming hands it to a mapper. It
// honours what a job of ours may say (attempts, how many run at a time, one line
// a task) and does on purpose what clusters do by accident. The command that
// submits is this test binary, which hands it its arguments.
type cluster struct {
	t    *testing.T
	url  string
	twin bool // two attempts of a task at a time, as speculative execution has them
	// harm happens to the first attempt of each task once it runs: "lost" (its
	// node is gone, which doesn't count), "kill" (which does), "sleep" (it stops
	// until wake).
	harm   string
	fail   func(r *http.Request) bool // which requests get 503
	submit func(args []string) string // what the command says instead of submitting; "" = it submits

	calls  []called // of the command; one after the other
	mu     sync.Mutex
	apps   []*yarnApp
	asleep []*os.Process
	tasks  sync.WaitGroup
}

// called is what the command that submits was given.
type called struct {
	Args, Env []string
	Secrets   map[string]string
}

const hadoopEnv = "SAWLOG_TEST_HADOOP"

// hadoopMain is what the test binary does when it is called as the command that
// runs Hadoop Streaming.
func hadoopMain(addr string) {
	call := called{Args: os.Args[1:], Env: os.Environ()}
	if slices.ContainsFunc(call.Args, func(arg string) bool { return strings.HasPrefix(arg, "mapreduce.job.credentials.json=") }) {
		text, err := os.ReadFile(secretsPath)
		if err == nil {
			err = json.Unmarshal(text, &call.Secrets)
		}
		if err != nil {
			panic(err)
		}
	}
	body, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	resp, err := http.Post(addr+"/submit", "application/json", bytes.NewReader(body))
	if err != nil {
		fmt.Println("Error Launching job : java.net.ConnectException: Connection refused")
		os.Exit(5)
	}
	var said string
	_ = json.NewDecoder(resp.Body).Decode(&said)
	_ = resp.Body.Close()
	fmt.Println(said)
	if !strings.Contains(said, "running in background") {
		os.Exit(5)
	}
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /submit", func(w http.ResponseWriter, r *http.Request) {
		var call called
		_ = json.NewDecoder(r.Body).Decode(&call)
		c.calls = append(c.calls, call)
		_ = json.NewEncoder(w).Encode(c.take(call.Args))
	})
	const api = "/ws/v1/cluster/"
	mux.HandleFunc("GET "+api+"apps", c.list)
	mux.HandleFunc("GET "+api+"apps/{id}", func(w http.ResponseWriter, r *http.Request) {
		c.with(w, r, func(a *yarnApp) { write(w, http.StatusOK, map[string]any{"app": a.show()}) })
	})
	mux.HandleFunc("PUT "+api+"apps/{id}/state", func(w http.ResponseWriter, r *http.Request) {
		c.with(w, r, func(a *yarnApp) {
			a.end("KILLED", "KILLED", "Application killed by user")
			write(w, http.StatusAccepted, map[string]any{"state": a.state})
		})
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.fail != nil && r.Method != http.MethodPost && c.fail(r) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	c.url = server.URL
	t.Setenv(hadoopEnv, server.URL)
	t.Cleanup(func() {
		server.Close()
		c.mu.Lock()
		for _, a := range c.apps {
			a.end("KILLED", "KILLED", "the cluster is gone")
		}
		c.mu.Unlock()
		c.idle(t)
	})
	return c
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (c *cluster) with(w http.ResponseWriter, r *http.Request, use func(*yarnApp)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.apps {
		if a.id == r.PathValue("id") {
			use(a)
			return
		}
	}
	write(w, http.StatusNotFound, map[string]any{"RemoteException": map[string]any{
		"exception": "NotFoundException", "message": "java.lang.Exception: app with id: " + r.PathValue("id") + " not found",
	}})
}

func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []any
	for _, a := range slices.Backward(c.apps) {
		if a.conf["mapreduce.job.tags"] == r.URL.Query().Get("applicationTags") {
			found = append(found, a.show())
		}
	}
	if found == nil {
		write(w, http.StatusOK, map[string]any{"apps": nil})
		return
	}
	write(w, http.StatusOK, map[string]any{"apps": map[string]any{"app": found}})
}

// yarnApp is one application: a job of map tasks.
type yarnApp struct {
	c          *cluster
	id         string
	conf       map[string]string
	flags      map[string]string
	lines      []string
	attempts   []*attempt
	done       map[int]bool
	failed     map[int]int // failures that count, by task
	state      string
	final, why string
}

type attempt struct {
	task    int
	cmd     *exec.Cmd
	running bool
	lost    bool
}

// take does what Hadoop Streaming does with the arguments.
func (c *cluster) take(args []string) string {
	if c.submit != nil {
		if said := c.submit(args); said != "" {
			return said
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &yarnApp{
		c: c, id: fmt.Sprintf("application_1764500000000_%04d", len(c.apps)+1), conf: map[string]string{}, flags: map[string]string{},
		done: map[int]bool{}, failed: map[int]int{}, state: "RUNNING", final: "UNDEFINED",
	}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-background":
			a.flags["background"] = "true"
		case "-D":
			i++
			key, value, _ := strings.Cut(args[i], "=")
			a.conf[key] = value
		default:
			a.flags[strings.TrimPrefix(args[i], "-")] = args[i+1]
			i++
		}
	}
	if said := a.check(); said != "" {
		return said
	}
	c.apps = append(c.apps, a)
	a.fill()
	return "INFO streaming.StreamJob: Job is running in background."
}

// check refuses what Hadoop, or this cluster, would.
func (a *yarnApp) check() string {
	in, err := url.Parse(a.flags["input"])
	var text []byte
	if err == nil {
		text, err = os.ReadFile(in.Path)
	}
	switch {
	case err != nil:
		return "ERROR streaming.StreamJob: Error launching job , bad input path : " + err.Error()
	case a.flags["output"] == "" || a.flags["background"] == "" || a.conf["mapreduce.job.reduces"] != "0":
		return "Required argument: -output, -background, no reducers"
	case !strings.HasSuffix(a.flags["inputformat"], ".NLineInputFormat") || a.conf["mapreduce.input.lineinputformat.linespermap"] != "1":
		return "a task is a line"
	case !strings.HasPrefix(a.flags["files"], "file:///") || !strings.HasSuffix(a.flags["files"], "#sawlog") || !strings.HasPrefix(a.flags["mapper"], "sawlog "):
		return "the binary is shipped as sawlog"
	}
	a.lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return ""
}

// limit is a number of the job's conf.
func (a *yarnApp) limit(key string, otherwise int) int {
	if n, err := strconv.Atoi(a.conf[key]); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// fill starts attempts until enough run.
func (a *yarnApp) fill() {
	active := map[int]bool{}
	for _, t := range a.attempts {
		if t.running && !a.done[t.task] {
			active[t.task] = true
		}
	}
	for i := range a.lines {
		if a.state != "RUNNING" || len(active) >= a.limit("mapreduce.job.running.map.limit", len(a.lines)) {
			return
		}
		if a.done[i] || active[i] {
			continue
		}
		active[i] = true
		a.start(i)
		if a.c.twin {
			a.start(i)
		}
	}
}

// start runs the mapper on a line, as PipeMapRed does: with the job's conf in
// its environment and a folder of its own.
func (a *yarnApp) start(task int) {
	room := a.c.t.TempDir()
	words := strings.Fields(a.flags["mapper"])
	t := &attempt{task: task, cmd: exec.Command(peer.Binary(a.c.t), words[1:]...), running: true}
	line := a.lines[task] + "\n"
	if a.conf["stream.map.input.ignoreKey"] != "true" {
		line = "4096\t" + line
	}
	t.cmd.Stdin = strings.NewReader(line)
	t.cmd.Dir = room
	t.cmd.Env = append(os.Environ(), "TMPDIR="+room, a.flags["cmdenv"], fmt.Sprintf("mapreduce_task_attempt_id=attempt_%d_%d", task, len(a.attempts)))
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	first := !slices.ContainsFunc(a.attempts, func(o *attempt) bool { return o.task == task })
	a.attempts = append(a.attempts, t)
	started := make(chan error)
	a.c.tasks.Go(func() {
		err := t.cmd.Start()
		if err == nil && first {
			a.harm(t)
		}
		started <- err
		if err == nil {
			_ = t.cmd.Wait()                   // the state says how it ended
			time.Sleep(200 * time.Millisecond) // a container and a JVM come before the next attempt
		}
		a.c.mu.Lock()
		defer a.c.mu.Unlock()
		t.running = false
		a.ended(t)
		a.fill()
	})
	if err := <-started; err != nil {
		a.c.t.Error(err)
	}
}

// harm does to an attempt what the test asked for.
func (a *yarnApp) harm(t *attempt) {
	switch a.c.harm {
	case "lost":
		t.lost = true
		_ = t.cmd.Process.Kill()
	case "kill":
		_ = t.cmd.Process.Kill()
	case "sleep":
		_ = t.cmd.Process.Signal(syscall.SIGSTOP)
		a.c.asleep = append(a.c.asleep, t.cmd.Process)
	}
}

// ended counts an attempt as the ApplicationMaster does: the task is done with
// the first that works, the job has failed with the first task that has no
// attempt left.
func (a *yarnApp) ended(t *attempt) {
	switch {
	case t.cmd.ProcessState.Success():
		a.done[t.task] = true
		for _, o := range a.attempts {
			if o.task == t.task && o.running && a.c.harm != "sleep" { // which nobody can end
				_ = o.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		if len(a.done) == len(a.lines) {
			a.end("FINISHED", "SUCCEEDED", "")
		}
	case t.lost || a.done[t.task] || a.state != "RUNNING":
	default:
		if a.failed[t.task]++; a.failed[t.task] >= a.limit("mapreduce.map.maxattempts", 4) {
			a.end("FINISHED", "FAILED", fmt.Sprintf("Task failed task_%06d\nJob failed as tasks failed. failedMaps:1", t.task))
		}
	}
}

// end ends the application with what runs of it.
func (a *yarnApp) end(state, final, why string) {
	if a.state != "RUNNING" {
		return
	}
	a.state, a.final, a.why = state, final, why
	for _, t := range a.attempts {
		if t.running && state != "FINISHED" || t.running && final == "FAILED" {
			_ = t.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}

func (a *yarnApp) show() map[string]any {
	return map[string]any{
		"id": a.id, "state": a.state, "finalStatus": a.final, "diagnostics": a.why, "applicationTags": a.conf["mapreduce.job.tags"],
		"trackingUrl": a.c.url + "/proxy/" + a.id, "progress": 100 * float64(len(a.done)) / float64(len(a.lines)),
	}
}

// wake lets attempts go on that sleep.
func (c *cluster) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.asleep {
		_ = p.Signal(syscall.SIGCONT)
	}
	c.asleep = nil
}

// made is how many applications there ever were.
func (c *cluster) made() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.apps)
}

// idle wants no attempt to run any more, but for those that sleep.
func (c *cluster) idle(t *testing.T) {
	t.Helper()
	c.wake()
	enginetest.Ended(t, &c.tasks)
}
