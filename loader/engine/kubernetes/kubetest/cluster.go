// Package kubetest is as much of a Kubernetes cluster as a Job of ours can tell
// from a real one, for tests: an API that takes Jobs which fit the published types,
// a Job controller that honours completions, parallelism, retries and the
// podFailurePolicy, and a kubelet whose pods are processes of the sawlog binary.
// It does on purpose what clusters do by accident.
//
// It has two faces. To the kubectl it puts on the PATH, which is the test binary
// itself (Main), it is a few commands; to a real kubectl it is the REST API
// (Kubeconfig).
package kubetest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
	"sawlog/loader/engine/enginetest"
)

// Cluster is a running cluster, stopped when its test ends.
type Cluster struct {
	t      testing.TB
	binary string // of sawlog: what the pods run
	server *httptest.Server

	mu     sync.Mutex
	c      Conduct
	jobs   map[string]*job
	made   int
	asleep []*os.Process
	pods   sync.WaitGroup
}

// Conduct is how a cluster behaves.
type Conduct struct {
	Twin bool // two pods of an index at a time, as when a node was thought gone
	// Harm happens to the first pod of each index from From on once it runs.
	Harm Harm
	From int
	// Refuse is what kubectl is to say instead of doing what it is asked; "" =
	// nothing.
	Refuse func(args []string) string
}

// Harm is what becomes of a pod.
type Harm string

// The kinds of harm.
const (
	None  Harm = ""
	Evict Harm = "evict" // its node is drained
	Kill  Harm = "kill"  // it is out of memory
	Sleep Harm = "sleep" // it stops until Wake
)

// Start runs a cluster.
func Start(t testing.TB, conduct Conduct) *Cluster {
	t.Helper()
	c := &Cluster{t: t, binary: peer.Binary(t), c: conduct, jobs: map[string]*job{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+kubectlPath, c.serveKubectl)
	c.routes(mux)
	c.server = httptest.NewServer(mux)
	c.onPath()
	t.Cleanup(func() {
		c.server.Close()
		c.stop()
	})
	return c
}

// stop ends all pods.
func (c *Cluster) stop() {
	c.mu.Lock()
	for _, j := range c.jobs {
		j.deleted = true
		j.signal(syscall.SIGKILL)
	}
	c.mu.Unlock()
	c.Wake()
	c.pods.Wait()
}

// Behave changes how the cluster behaves from now on.
func (c *Cluster) Behave(conduct Conduct) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c = conduct
}

// Made is how many Jobs were made so far.
func (c *Cluster) Made() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// Jobs is how many there are.
func (c *Cluster) Jobs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jobs)
}

// Ends are the exit codes of the pods of the Jobs there are.
func (c *Cluster) Ends() (codes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		for _, p := range j.pods {
			if p.end == nil {
				codes = append(codes, p.code)
			}
		}
	}
	return codes
}

// Wake lets pods go on that sleep.
func (c *Cluster) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.asleep {
		_ = p.Signal(syscall.SIGCONT) // it may have been killed
	}
	c.asleep = nil
}

// Idle wakes all pods and wants them to end.
func (c *Cluster) Idle(t testing.TB) {
	t.Helper()
	c.Wake()
	enginetest.Ended(t, &c.pods)
}

// Kubeconfig is the configuration by which a real kubectl finds the cluster.
func (c *Cluster) Kubeconfig() (file string) {
	c.t.Helper()
	named := func(key string, of map[string]any) []any { return []any{map[string]any{"name": "test", key: of}} }
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": named("cluster", map[string]any{"server": c.server.URL}),
		"users":    named("user", map[string]any{}),
		"contexts": named("context", map[string]any{"cluster": "test", "user": "test"}),
	})
	file = filepath.Join(c.t.TempDir(), "kubeconfig")
	if err == nil {
		err = os.WriteFile(file, config, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return file
}

// refused is what the API answers to what it won't do.
type refused struct {
	Code    int
	Reason  string
	Message string
}

func (c *Cluster) find(name string) (*job, *refused) {
	if j := c.jobs[name]; j != nil {
		return j, nil
	}
	return nil, &refused{http.StatusNotFound, "NotFound", `jobs.batch "` + name + `" not found`}
}

// create makes a Job of a manifest. The caller holds mu.
func (c *Cluster) create(text []byte) (*job, *refused) {
	if wrong := Check(text); len(wrong) > 0 {
		return nil, &refused{http.StatusBadRequest, "BadRequest", strings.Join(wrong, "; ")}
	}
	j, err := newJob(c, text)
	if err != nil {
		return nil, &refused{http.StatusInternalServerError, "InternalError", err.Error()}
	}
	name := j.m.Metadata.Name
	if c.jobs[name] != nil {
		return nil, &refused{http.StatusConflict, "AlreadyExists", `jobs.batch "` + name + `" already exists`}
	}
	c.jobs[name] = j
	c.made++
	j.fill()
	return j, nil
}

// terminationGrace is how long a pod may take to end when it is asked to; 30 s
// where nobody waits for a test.
const terminationGrace = 3 * time.Second

// delete takes a Job away, once its pods have ended. The caller holds mu.
func (c *Cluster) delete(name string) *refused {
	j, no := c.find(name)
	if no != nil {
		return no
	}
	delete(c.jobs, name)
	j.deleted = true
	ends := j.signal(syscall.SIGTERM)
	c.mu.Unlock()
	late := time.AfterFunc(terminationGrace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		j.signal(syscall.SIGKILL)
	})
	for _, end := range ends {
		<-end
	}
	late.Stop()
	c.mu.Lock()
	return nil
}
