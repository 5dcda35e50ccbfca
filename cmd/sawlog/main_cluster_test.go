package main

import (
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// clusterNode is one node of a script's cluster.
type clusterNode struct {
	listen, peer, web string
	cmd               *exec.Cmd
}

type nodesKey struct{}

// nodeCommand starts a node, or starts it again on the same data, and returns
// when it is ready: node ID [FLAG…]. Node 1 founds the cluster, the others join
// it; SAWLOG_BROKERS names all of them.
func nodeCommand(ts *testscript.TestScript, _ bool, args []string) {
	nodes := ts.Value(nodesKey{}).(map[string]*clusterNode)
	id := args[0]
	n := nodes[id]
	if n == nil {
		n = &clusterNode{listen: freeAddress(ts), peer: freeAddress(ts), web: freeAddress(ts)}
		nodes[id] = n
	}
	line := []string{"serve", "--node-id", id, "--data", ts.MkAbs("data" + id), "--listen", n.listen, "--peer", n.peer, "--http", n.web}
	if id != "1" {
		line = append(line, "--join", nodes["1"].peer)
	}
	n.cmd = exec.Command(self(ts), append(line, args[1:]...)...)
	n.cmd.Dir = ts.MkAbs(".")
	var said strings.Builder
	n.cmd.Stderr = &said
	ts.Check(n.cmd.Start())
	cmd := n.cmd
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
	})
	brokers := make([]string, 0, len(nodes))
	for _, n := range nodes {
		brokers = append(brokers, n.listen)
	}
	ts.Setenv("SAWLOG_BROKERS", strings.Join(brokers, ","))
	if !n.says(http.StatusOK) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ts.Fatalf("node %s is not ready after 30 s: %s", id, said.String())
	}
}

// says waits half a minute for an answer of /readyz.
func (n *clusterNode) says(code int) bool {
	for range 1500 {
		if resp, err := http.Get("http://" + n.web + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == code {
				return true
			}
		}
		time.Sleep(20 * time.Millisecond) // another process acts
	}
	return false
}

// unreadyCommand waits until a node that runs says it is not ready.
func unreadyCommand(ts *testscript.TestScript, _ bool, args []string) {
	if !ts.Value(nodesKey{}).(map[string]*clusterNode)[args[0]].says(http.StatusServiceUnavailable) {
		ts.Fatalf("node %s is still ready after 30 s", args[0])
	}
}

// endNodeCommand ends a node: endnode ID [kill]. Without kill it must end in
// good order.
func endNodeCommand(ts *testscript.TestScript, _ bool, args []string) {
	n := ts.Value(nodesKey{}).(map[string]*clusterNode)[args[0]]
	if len(args) > 1 {
		ts.Check(n.cmd.Process.Kill())
		_ = n.cmd.Wait() // killed is how it ended
		return
	}
	ts.Check(n.cmd.Process.Signal(syscall.SIGTERM))
	late := time.AfterFunc(30*time.Second, func() { _ = n.cmd.Process.Kill() })
	err := n.cmd.Wait()
	if !late.Stop() {
		ts.Fatalf("node %s did not end within 30 s of the signal", args[0])
	}
	ts.Check(err)
}
