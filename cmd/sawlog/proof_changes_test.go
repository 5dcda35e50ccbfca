package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestProofTopicReplaced deletes a topic and makes another of its name: a plan
// of the old one is refused, and the new one's records are loaded beside.
func TestProofTopicReplaced(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.lines("again", 60)
	path, root := n.job("again", textJob)
	if o := n.outcome(0, "run", path, "--range", "again/0=0..40"); o.Rows != 40 {
		t.Fatalf("%d rows", o.Rows)
	}
	plan := n.write("old.json", string(n.run("plan", path, "-o", "json")))
	n.run("topic", "delete", "again", "--yes")
	n.refused(3, []string{"again"}, "run", path)
	n.lines("again", 25)
	before := treeOf(t, root)
	out, code, said := n.try("run", "--plan", plan)
	if code != 3 && code != 4 && code != 8 || !strings.Contains(said, "again") {
		t.Errorf("a plan of a topic that is gone: exit code %d: %s%s", code, said, out)
	}
	out, code, said = n.try("rerun", "0", "--root", root)
	if code != 3 && code != 4 && code != 8 || !strings.Contains(said, "again") {
		t.Errorf("a rerun of a topic that is gone: exit code %d: %s%s", code, said, out)
	}
	if err := sameTree(before, treeOf(t, root)); err != nil {
		t.Fatalf("the old plan changed files: %v", err)
	}
	if o := n.outcome(0, "run", path); o.Rows != 25 {
		t.Errorf("%d rows of the new topic, want 25", o.Rows)
	}
	if rows, _ := rowsOf(t, root); rows != 65 {
		t.Errorf("%d rows, want 40 of the old and 25 of the new topic", rows)
	}
	n.clean(root)
}

// TestProofPartitionsAdded loads a topic that grows partitions between runs.
func TestProofPartitionsAdded(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.lines("wider", 30)
	path, root := n.job("wider", textJob)
	n.outcome(0, "run", path)
	n.run("topic", "alter", "wider", "--partitions", "3")
	var records []*kgo.Record
	for i := range 90 {
		records = append(records, &kgo.Record{Topic: "wider", Partition: int32(i % 3), Value: fmt.Appendf(nil, "wide %d", i)})
	}
	n.send(byHand("none"), records...)
	if o := n.outcome(0, "run", path); o.Rows != 90 || len(o.Ranges) != 3 {
		t.Errorf("after two partitions were added: %+v", o)
	}
	if rows, distinct := rowsOf(t, root); rows != 120 || distinct != 120 {
		t.Errorf("%d rows, %d different, want 120", rows, distinct)
	}
	n.clean(root)
}

// TestSoakBrokerRestartsUnderRun kills the server under a run that another
// process carries out: the run waits for it, or says unavailable, and goes on.
func TestSoakBrokerRestartsUnderRun(t *testing.T) {
	t.Parallel() // it waits for the server to start
	needPython(t)
	n := startNode(t)
	n.run("topic", "create", "under", "--partitions", "2")
	for p := range int32(2) {
		n.send(byHand("zstd"), wide("under", p, 6000, 10)...)
	}
	rnd := rand.New(rand.NewPCG(11, 7))
	codes := map[int]int{}
	for round := range rounds(t, 3) {
		root := filepath.Join(n.dir, "under", fmt.Sprint(round))
		path := n.write(fmt.Sprintf("under-%d.yaml", round), "name: under\nsource: {topics: [under]}\noutput: {root: 'file://"+root+"'}\n"+numbersJob)
		c := n.spawn(nil, "run", path, "-o", "json")
		time.Sleep(time.Duration(20+rnd.IntN(500)) * time.Millisecond) // the moment is the point
		n.kill()
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		n.start()
		code := c.wait(60 * time.Second)
		if codes[code]++; code != 0 && code != 6 {
			t.Errorf("round %d: exit code %d: %s", round, code, c.said.String())
		}
		n.outcome(0, "run", path)
		n.clean(root)
		if rows, distinct := rowsOf(t, root); rows != 12_000-2*62 || distinct != rows {
			t.Errorf("round %d: %d rows, %d different, want %d", round, rows, distinct, 12_000-2*62)
		}
	}
	t.Logf("exit codes %v", codes)
}

// TestProofStopped ends a server and a run as an operator does: soon, and with
// the code that says so.
func TestProofStopped(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.run("topic", "create", "calm", "--partitions", "1")
	n.send(byHand("zstd"), wide("calm", 0, 20_000, 60)...)
	path, root := n.job("calm", numbersJob)
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		other := n.write("stopped.yaml", strings.Replace(string(mustRead(t, path)), root, fmt.Sprintf("%s-%d", root, want), 1))
		c := n.spawn(nil, "run", other)
		c.says("revision", patience) // it is under way
		if err := c.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := c.wait(10 * time.Second); code != want {
			t.Errorf("run after %s: exit code %d, want %d: %s", signal, code, want, c.said.String())
		}
	}
	n.ready()
	n.run("job", "apply", path)
	n.run("run", "calm")
	begun := time.Now()
	n.stop()
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the server took %s to stop under a run", took)
	}
	n.start()
	n.ready()
	n.run("run", "calm", "--wait")
	n.clean(root)
	if rows := n.out("out", "count", "--root", root, "rows"); rows != 20_000-207 {
		t.Errorf("%d rows, want %d", rows, 20_000-207)
	}
	c := n.spawn(nil, "serve", "--data", filepath.Join(n.dir, "other"), "--listen", "127.0.0.1:0", "--http", n.web)
	if code := c.wait(20 * time.Second); code != 4 || !strings.Contains(c.said.String(), n.web) {
		t.Errorf("serve on a console's port that is taken: exit code %d: %s", code, c.said.String())
	}
}
