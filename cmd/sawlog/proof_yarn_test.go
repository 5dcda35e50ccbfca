package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	"sawlog/loader/engine/hadoop/mini"
)

// yarn is a cluster that carries out the tasks of a node's loads.
type yarn struct {
	*mini.Cluster
	n      *node
	frozen atomic.Bool // tasks are stopped where they are
	done   chan struct{}
	wait   sync.WaitGroup
}

// onTask is part of the command line of a task.
const onTask = " task exec --stdin --streaming"

func startYARN(n *node, c *mini.Cluster) *yarn {
	y := &yarn{Cluster: c, n: n, done: make(chan struct{})}
	y.wait.Go(func() {
		for {
			select {
			case <-y.done:
				return
			case <-time.After(20 * time.Millisecond): // other processes start
				if y.frozen.Load() {
					y.signal(syscall.SIGSTOP)
				}
			}
		}
	})
	n.t.Cleanup(func() {
		close(y.done)
		y.wait.Wait()
	})
	return y
}

func (y *yarn) signal(s syscall.Signal) {
	for _, pid := range y.Processes(onTask) {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// freeze stops tasks, also those to come, where they are; thaw lets them go on.
func (y *yarn) freeze() { y.frozen.Store(true) }

func (y *yarn) thaw() {
	y.frozen.Store(false)
	time.Sleep(100 * time.Millisecond) // past the last look for new ones
	y.signal(syscall.SIGCONT)
}

// job writes a job whose tasks run on the cluster, each of them twice at a time,
// and slowly enough for things to happen to it.
func (y *yarn) job(topic string) (path, root string) {
	root = y.URI("/warehouse/" + topic)
	return y.n.write(topic+".yaml", y.text(topic, root, "1MiB", "", "")), root
}

// text is that of a job with more said of the root and of the cluster.
func (y *yarn) text(topic, root, rate, hdfs, hadoop string) string {
	return fmt.Sprintf(`
name: %s
source: {topics: [%[1]s]}
decode: {value: json}
schema:
  - {name: id, type: string}
  - {name: type, type: string}
  - {name: created_at, type: string}
  - {name: actor, type: json}
  - {name: repo, type: json}
  - {name: payload, type: json}
  - {name: public, type: bool}
time: {field: created_at, format: rfc3339}
output: {root: '%s', merge_partitions: never%s}
run:
  memory: 128MiB
  rate: %s
  engine: hadoop
  hadoop:
    resource_manager: '%s'
    command: ['%s']
    conf: {yarn.app.mapreduce.am.job.speculator.class: EagerSpeculator}
%s`, topic, root, hdfs, rate, y.ResourceManager, y.Streaming[0], hadoop)
}

// yarnApp is an application as the ResourceManager shows it.
type yarnApp struct{ ID, State, FinalStatus, ApplicationTags, AMHostHTTPAddress string }

func (y *yarn) apps() []yarnApp {
	y.n.t.Helper()
	resp, err := http.Get(y.ResourceManager + "/ws/v1/cluster/apps")
	if err != nil {
		y.n.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	var have struct {
		Apps *struct{ App []yarnApp }
	}
	if err := json.NewDecoder(resp.Body).Decode(&have); err != nil {
		y.n.t.Fatal(err)
	}
	if have.Apps == nil {
		return nil
	}
	return have.Apps.App
}

// yarnPatience is how long a step may take: a JVM that gets a tenth of a core needs minutes.
const yarnPatience = 8 * time.Minute

// TestProofYARN loads real events by tasks on a YARN cluster, each carried out
// twice at a time. A task, the ApplicationMaster and the driver are killed and a
// node goes away; the driver that comes back submits nothing again, and what is
// loaded is, byte for byte, what this machine's own tasks make. A load that is
// cancelled leaves nothing running, and the next one does its work.
func TestProofYARN(t *testing.T) {
	input := filepath.Join(realData(t), "github", "2021-07-21-few-hours.jsonl.gz")
	n := startNode(t)
	y := startYARN(n, mini.Start(t, mini.Options{Nodes: 2}))
	n.run("topic", "create", "events", "--partitions", "3")
	for p := range 3 {
		n.run("produce", "events", input, "-z", "gzip", "--partition", strconv.Itoa(p))
	}
	job, root := y.job("events")
	n.run("doctor", "hadoop", job)

	y.freeze()
	first := n.spawn(nil, "run", job, "-v")
	first.says(`"msg":"submitted"`, yarnPatience)
	n.eventually("every split is carried out twice at a time", yarnPatience, func() bool { return len(y.Processes(onTask)) == 6 })
	before := y.Processes(onTask)
	kill(t, before[0])
	first.killAll()
	kill(t, y.Processes("MRAppMaster")...)
	n.eventually("another ApplicationMaster has all carried out again", yarnPatience, func() bool {
		now := y.Processes(onTask)
		return len(now) >= 3 && !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) })
	})
	second := n.spawn(nil, "run", job, "-v", "-o", "json")
	second.says("following it", yarnPatience)
	_, port, err := net.SplitHostPort(y.apps()[0].AMHostHTTPAddress)
	if err != nil {
		t.Fatal(err)
	}
	y.Do("stop-node %s", port)
	y.thaw()
	if code := second.wait(yarnPatience); code != output.OK {
		t.Fatalf("exit code %d: %s", code, second.said.String())
	}
	y.Do("start-nodes")
	var o loader.Outcome
	if err := json.Unmarshal(second.out.Bytes(), &o); err != nil || o.Status != loader.StatusCommitted || o.Rows != 3*800 {
		t.Fatalf("%s, %d rows, %v", o.Status, o.Rows, err)
	}
	if apps := y.apps(); len(apps) != 1 || apps[0].FinalStatus != "SUCCEEDED" {
		t.Errorf("applications %+v, want one that was submitted once", apps)
	}
	n.undisturbed(mirror(t, root), filepath.Join(n.dir, "local"))
	y.cancelled(job, input)
	n.clean(root)
}

func kill(t *testing.T, pids ...int) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("no such process")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// cancelled starts a load, ends it by Ctrl-C, and has the next one do its work.
func (y *yarn) cancelled(job, input string) {
	n := y.n
	n.t.Helper()
	n.run("produce", "events", input, "-z", "gzip", "--partition", "1")
	y.freeze()
	run := n.spawn(nil, "run", job, "-v")
	n.eventually("a task runs", yarnPatience, func() bool { return len(y.Processes(onTask)) > 0 })
	if err := run.cmd.Process.Signal(syscall.SIGINT); err != nil {
		n.t.Fatal(err)
	}
	if code := run.wait(yarnPatience); code != output.Interrupted {
		n.t.Fatalf("exit code %d: %s", code, run.said.String())
	}
	n.eventually("nothing of it runs", yarnPatience, func() bool { return len(y.Processes("")) == 0 })
	if apps := y.apps(); len(apps) != 2 || !slices.ContainsFunc(apps, func(a yarnApp) bool { return a.State == "KILLED" }) {
		n.t.Errorf("applications %+v, want the second killed", apps)
	}
	y.thaw()
	if o := n.outcome(output.OK, "run", job); o.Status != loader.StatusCommitted || o.Rows != 800 {
		n.t.Errorf("%s, %d rows", o.Status, o.Rows)
	}
}
