package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
	"sawlog/loader/sink/hdfs/mini"
)

// harmed is a topic, what a load of it leaves on a local disk, and an HDFS that
// comes to harm while it is loaded there.
type harmed struct {
	*node
	c    *mini.Cluster
	want map[string]string
	rows int64
	jobs *int // made so far
}

// startHarmed starts an HDFS of two NameNodes and three DataNodes, which clients
// know as the name service warehouse.
func startHarmed(t *testing.T) *harmed {
	t.Helper()
	dir := t.TempDir()
	c := mini.Start(t, mini.Options{HA: true, DataNodes: 3, Conf: []string{
		"dfs.replication=2", "dfs.namenode.avoid.write.stale.datanode=true", "dfs.namenode.stale.datanode.interval=3000",
		"hadoop.security.key.provider.path=jceks://file" + filepath.Join(dir, "keys.jceks"),
	}})
	site := "<configuration>"
	for _, kv := range [][2]string{
		{"dfs.ha.namenodes.warehouse", "a,b"},
		{"dfs.namenode.rpc-address.warehouse.a", c.NameNodes[0]},
		{"dfs.namenode.rpc-address.warehouse.b", c.NameNodes[1]},
	} {
		site = fmt.Sprintf("%s<property><name>%s</name><value>%s</value></property>", site, kv[0], kv[1])
	}
	if err := os.WriteFile(filepath.Join(dir, "hdfs-site.xml"), []byte(site+"</configuration>"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HADOOP_CONF_DIR", dir)
	h := &harmed{node: startNode(t), c: c, jobs: new(int)}
	h.run("topic", "create", "views", "--partitions", "3")
	for p := range int32(3) {
		h.send(byHand("zstd"), wide("views", p, 4000, 30)...)
	}
	near := filepath.Join(h.dir, "local")
	h.rows = h.outcome(output.OK, "run", h.job("file://"+near, "")).Rows
	h.want = anyPlan(treeOf(t, near))
	if len(h.want) < 90 {
		t.Fatalf("%d files are too few to come to harm among", len(h.want))
	}
	return h
}

// uri is that of a folder.
func (h *harmed) uri(path string) string { return "hdfs://warehouse" + path }

// in is the same for a part of the test.
func (h *harmed) in(t *testing.T) *harmed {
	here, n := *h, *h.node
	n.t = t
	here.node = &n
	return &here
}

// job writes a job into a root. The bytes of its files are those of every other,
// and so are the names but for the plan in them.
func (h *harmed) job(root, more string) (file string) {
	h.t.Helper()
	*h.jobs++
	name := fmt.Sprintf("views%d", *h.jobs)
	return h.write(name+".yaml", fmt.Sprintf("name: %s\nsource: {topics: [views]}\noutput: {root: '%s', merge_partitions: never}\n", name, root)+
		"decode: {value: json}\ntime: {field: at, format: rfc3339}\n"+more)
}

// staging waits for the first staged file of a load, which is then in its middle.
func (h *harmed) staging(root string) {
	h.t.Helper()
	s, err := hdfs.Open(h.t.Context(), root, sink.Access{})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // only read
	h.eventually("a file is staged in "+root, 2*time.Minute, func() bool {
		found, err := anyFile(s, loader.StagesDir)
		if err != nil {
			h.t.Fatal(err)
		}
		return found
	})
}

// anyFile tells whether a data file lies anywhere below a folder.
func anyFile(s sink.Sink, dir string) (bool, error) {
	entries, err := s.List(dir)
	if errors.Is(err, sink.ErrNotExist) {
		return false, nil
	}
	for _, e := range entries {
		if !e.Dir && strings.Contains(e.Name, ".parquet") {
			return true, nil
		}
		if !e.Dir {
			continue
		}
		if found, err := anyFile(s, path.Join(dir, e.Name)); found || err != nil {
			return found, err
		}
	}
	return false, err
}

// planInName is the plan in the name of a file.
var planInName = regexp.MustCompile(`-[0-9a-f]{8}(\.parquet)$|(quarantine/)[0-9a-f]{8}-`)

// anyPlan is a tree whose names don't say by which plan it was loaded.
func anyPlan(tree map[string]string) map[string]string {
	out := map[string]string{}
	for name, sum := range tree {
		out[planInName.ReplaceAllString(name, "$1$2")] = sum
	}
	return out
}

// whole wants in a root what a load leaves on a local disk.
func (h *harmed) whole(root string) {
	h.t.Helper()
	if err := sameTree(h.want, anyPlan(treeOf(h.t, mirror(h.t, root)))); err != nil {
		h.t.Error(err)
	}
	h.clean(root)
}

// loaded is the end of a load that is under way: committed, and whole.
func (h *harmed) loaded(load *child, root string) {
	h.t.Helper()
	h.committed(load)
	h.whole(root)
}

// committed waits for a load that commits all rows.
func (h *harmed) committed(load *child) {
	h.t.Helper()
	code := load.wait(5 * time.Minute)
	var o loader.Outcome
	if err := json.Unmarshal(load.out.Bytes(), &o); err != nil || code != output.OK || o.Rows != h.rows || o.Status != loader.StatusCommitted {
		h.t.Fatalf("exit code %d, %d rows, want %d: %s%s %v", code, o.Rows, h.rows, load.out.String(), load.said.String(), err)
	}
}

// shortly wants a process to end with a code, within a time.
func (h *harmed) shortly(c *child, code int, says string, limit time.Duration) {
	h.t.Helper()
	start := time.Now()
	if got := c.wait(limit + time.Minute); got != code || !strings.Contains(c.said.String(), says) {
		h.t.Errorf("it ended with %d, want %d and %q: %s", got, code, says, c.said.String())
	}
	took := time.Since(start)
	h.t.Logf("ended with %d after %v", code, took)
	if took > limit {
		h.t.Errorf("it went on for %v, want %v", took, limit)
	}
}

// TestSoakHDFSHarm loads into an HDFS that is well, and while it comes to all kinds
// of harm: to a few of them unless in a soak. What is passing is waited for, what
// isn't ends the run with a code that says so; in the end the files are those of a
// load nobody disturbs.
func TestSoakHDFSHarm(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	h := startHarmed(t)
	for _, harm := range []struct {
		name    string
		often   bool // not only in a soak
		happens func(h *harmed, root string)
	}{
		{"real events", true, (*harmed).realEvents},
		{"the standby takes over", true, (*harmed).failover},
		{"nothing answers", true, (*harmed).nothingAnswers},
		{"a quota of names", true, (*harmed).quotaOfNames},
		{"a root that can't be used", true, (*harmed).refusedRoots},
		{"pods", true, (*harmed).pods},
		{"a DataNode ends, the NameNode restarts", false, (*harmed).serversGo},
		{"safe mode", false, (*harmed).safeMode},
		{"nothing answers in time", false, (*harmed).nothingAnswersInTime},
		{"nothing answers a server", false, (*harmed).nothingAnswersServer},
		{"a quota of bytes", false, (*harmed).quotaOfBytes},
	} {
		if !harm.often && !inSoak() {
			continue
		}
		t.Run(harm.name, func(t *testing.T) {
			harm.happens(h.in(t), h.uri("/warehouse/"+strings.ReplaceAll(strings.ReplaceAll(harm.name, " ", "-"), ",", "")))
		})
	}
}

func (h *harmed) serversGo(root string) {
	load := h.spawn(nil, "run", h.job(root, ""), "-o", "json")
	h.staging(root)
	h.c.Do("stop-dn 0")
	h.c.Do("restart-nn")
	h.loaded(load, root)
	h.c.Do("start-dn")
}

func (h *harmed) failover(root string) {
	load := h.spawn(nil, "run", h.job(root, ""), "-o", "json")
	h.staging(root)
	h.c.Do("failover")
	time.Sleep(time.Second) // of work by the other one
	h.c.Do("failover")
	h.loaded(load, root)
}

func (h *harmed) safeMode(root string) {
	load := h.spawn(nil, "run", h.job(root, ""), "-o", "json")
	h.staging(root)
	h.c.Do("safemode on")
	time.Sleep(2 * time.Second) // of a store that takes no change
	h.c.Do("safemode off")
	h.loaded(load, root)
}

// soon is within some of the seconds that a call is given to end, on a busy machine
// too. Who didn't hear of a signal, or of --timeout, waits for half a minute.
const soon = 15 * time.Second

// A store that takes connections and says nothing: --timeout and Ctrl-C end the
// run, and another one goes on with it.
func (h *harmed) nothingAnswers(root string) {
	job := h.job(root, "")
	load := h.spawn(nil, "run", job)
	h.staging(root)
	h.c.Freeze()
	if err := load.cmd.Process.Signal(syscall.SIGINT); err != nil {
		h.t.Fatal(err)
	}
	h.shortly(load, output.Interrupted, "goes on with what is left", soon)
	h.shortly(h.spawn(nil, "run", job, "--timeout", "2s"), output.Unavailable, root, soon)
	h.c.Thaw()
	h.loaded(h.spawn(nil, "run", job, "-o", "json"), root)
}

// So does --timeout in the middle of the load, with its tasks.
func (h *harmed) nothingAnswersInTime(root string) {
	job := h.job(root, "run: {retries: 0}\n")
	load := h.spawn(nil, "run", job, "--timeout", "2s")
	h.staging(root)
	h.c.Freeze()
	h.shortly(load, output.Unavailable, root, 12*time.Second) // some calls of 2 s each
	h.c.Thaw()
	h.loaded(h.spawn(nil, "run", job, "-o", "json"), root)
}

// A person who cancels a run on a server is answered, too.
func (h *harmed) nothingAnswersServer(root string) {
	file := h.job(root, "")
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	h.run("job", "apply", file)
	var queued runLine
	if err := json.Unmarshal(h.run("run", name, "-o", "json"), &queued); err != nil {
		h.t.Fatal(err)
	}
	h.staging(root)
	h.c.Freeze()
	cancel := h.spawn(nil, "runs", "cancel", queued.Run, "--yes", "-o", "json")
	if code := cancel.wait(20 * time.Second); code != output.OK || !strings.Contains(cancel.out.String(), `"cancelled"`) {
		h.t.Errorf("runs cancel: exit code %d: %s%s", code, cancel.out.String(), cancel.said.String())
	}
	h.c.Thaw()
	h.loaded(h.spawn(nil, "run", name, "--wait", "-o", "json"), root)
}

// On a server: a run that meets a quota fails at once and names it; once it is
// raised a retry goes on with what is staged.
func (h *harmed) quotaOfNames(root string) {
	file := h.job(root, "")
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	h.run("job", "apply", file)
	load := h.spawn(nil, "run", name, "--wait", "-o", "json")
	h.staging(root)
	folder := strings.TrimPrefix(root, h.uri(""))
	h.c.Do("quota %s 3", folder)
	if code := load.wait(time.Minute); code != output.Conflict || !strings.Contains(load.said.String(), "quota (directories and files) of directory "+folder+" is exceeded") {
		h.t.Fatalf("exit code %d: %s%s", code, load.out.String(), load.said.String())
	}
	h.c.Do("quota %s 1000000", folder)
	run := h.runsOf(name)[0]
	if run.Status != "failed" || run.Attempt != 1 {
		h.t.Errorf("the run is %+v, want one failed attempt: a quota doesn't pass", run)
	}
	h.run("runs", "retry", run.Run)
	watch := h.spawn(nil, "runs", "watch", run.Run)
	if code := watch.wait(5 * time.Minute); code != output.OK {
		h.t.Fatalf("the retry ended with %d: %s", code, watch.said.String())
	}
	h.whole(root)
}

func (h *harmed) quotaOfBytes(root string) {
	job := h.job(root, "")
	folder := strings.TrimPrefix(root, h.uri(""))
	h.c.Do("mkdir %s 755", folder)
	h.c.Do("space-quota %s 4000000", folder) // of which a block that is written takes two
	load := h.spawn(nil, "run", job)
	if code := load.wait(time.Minute); code != output.Conflict || !strings.Contains(load.said.String(), "quota of "+folder+" is exceeded") {
		h.t.Fatalf("exit code %d: %s", code, load.said.String())
	}
	h.c.Do("space-quota %s 4000000000", folder)
	h.loaded(h.spawn(nil, "run", job, "-o", "json"), root)
}

// Where files can't be kept as they are nothing is made, and the error says what
// to do.
func (h *harmed) refusedRoots(string) {
	for _, command := range []string{"ec /coded", "ez /encrypted", "mkdir /theirs 700"} {
		h.c.Do("%s", command)
	}
	for folder, want := range map[string]struct {
		code int
		says string
	}{
		"/coded":     {output.Conflict, "hdfs ec -setPolicy -replicate -path /coded"},
		"/encrypted": {output.Conflict, "hdfs crypto -listZones"},
		"/theirs":    {output.Auth, "permission denied"},
	} {
		load := h.spawn([]string{"HADOOP_USER_NAME=loader"}, "run", h.job(h.uri(folder+"/views"), ""))
		h.shortly(load, want.code, want.says, 10*time.Second)
		s, err := hdfs.Open(h.t.Context(), h.uri("/"), sink.Access{})
		if err != nil {
			h.t.Fatal(err)
		}
		if made, err := s.List(strings.TrimPrefix(folder, "/")); len(made) > 0 || err != nil {
			h.t.Errorf("%s holds %v (%v)", folder, made, err)
		}
		_ = s.Close() // only read
	}
}
