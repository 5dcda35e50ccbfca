package kubetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

const (
	kubectlEnv  = "SAWLOG_TEST_KUBECTL"
	kubectlPath = "/kubectl"
)

// onPath makes the test binary the kubectl of this process and its children.
func (c *Cluster) onPath() {
	self, err := os.Executable()
	dir := c.t.TempDir()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "kubectl"))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	c.t.Setenv(kubectlEnv, c.server.URL+kubectlPath)
}

// Main is for TestMain: where the test binary was called as kubectl it hands its
// arguments to the cluster, and ends.
func Main() {
	addr := os.Getenv(kubectlEnv)
	if addr == "" || filepath.Base(os.Args[0]) != "kubectl" {
		return
	}
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	body, err := json.Marshal(call{os.Args[1:], string(in)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	resp, err := http.Post(addr, "application/json", bytes.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, "Unable to connect to the server:", err)
		os.Exit(1)
	}
	var a answer
	err = json.NewDecoder(resp.Body).Decode(&a)
	_ = resp.Body.Close() // read
	fmt.Print(a.Out)
	if err != nil || a.Err != "" {
		fmt.Fprintln(os.Stderr, a.Err)
		os.Exit(1)
	}
	os.Exit(0)
}

// call is kubectl's arguments and standard input, answer what it prints; with
// something in Err it fails.
type (
	call struct {
		Args  []string
		Stdin string
	}
	answer struct{ Out, Err string }
)

func (c *Cluster) serveKubectl(w http.ResponseWriter, r *http.Request) {
	var ask call
	var a answer
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		a.Err = err.Error()
	} else {
		a = c.kubectl(ask)
	}
	c.write(w, http.StatusOK, a)
}

// write answers with JSON.
func (c *Cluster) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		c.t.Log(err) // who asked was killed
	}
}

// kubectl does what the real one does with the arguments the engine gives it.
func (c *Cluster) kubectl(ask call) answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	args := ask.Args
	for len(args) > 2 && strings.HasPrefix(args[0], "--") { // where the cluster is
		args = args[2:]
	}
	if c.c.Refuse != nil {
		if said := c.c.Refuse(args); said != "" {
			return answer{Err: said}
		}
	}
	var no *refused
	var out any
	switch {
	case args[0] == "create":
		_, no = c.create([]byte(ask.Stdin))
	case args[0] == "get" && args[1] == "job":
		var j *job
		if j, no = c.find(args[2]); no == nil {
			out = map[string]any{"status": j.status()}
		}
	case args[0] == "get" && args[1] == "jobs":
		out = c.labelled(args[3])
	case args[0] == "get" && args[1] == "pods":
		_, name, _ := strings.Cut(args[3], "=")
		var j *job
		if j, no = c.find(name); no == nil {
			out = j.describePods()
		}
	case args[0] == "delete":
		if no = c.delete(args[2]); no != nil && no.Code == http.StatusNotFound {
			no = nil // --ignore-not-found
		}
	default:
		return answer{Err: fmt.Sprintf("error: unknown command %q", args)}
	}
	if no != nil {
		return answer{Err: fmt.Sprintf("Error from server (%s): %s", no.Reason, no.Message)}
	}
	if out == nil {
		return answer{}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return answer{Err: err.Error()}
	}
	return answer{Out: string(text)}
}
