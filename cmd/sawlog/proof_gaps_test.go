package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/loader"
)

// TestProofCompactionGaps loads a topic that was compacted: the holes are counted,
// all offsets add up, and what is compacted after a load is told by verify.
func TestProofCompactionGaps(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.run("topic", "create", "keys", "--partitions", "1", "--config", "cleanup.policy=compact", "--config", "segment.bytes=2000", "--config", "min.cleanable.dirty.ratio=0")
	put := func(from, count int) {
		for batch := from; batch < from+count; batch += 10 { // a batch for ten records
			var records []*kgo.Record
			for i := range 10 {
				records = append(records, &kgo.Record{Topic: "keys", Key: fmt.Appendf(nil, "k%d", (batch+i)%7), Value: fmt.Appendf(nil, "%d", batch+i)})
			}
			n.send([]kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())}, records...)
		}
	}
	put(0, 300)
	var o loader.Outcome
	var path, root string
	tries := 0
	n.eventually("the log is compacted", time.Minute, n.onceChanged("keys-0", func() bool {
		tries++
		name := fmt.Sprintf("try-%d", tries)
		root = filepath.Join(n.dir, "warehouse", name)
		path = n.write(name+".yaml", "name: keys\nsource: {topics: [keys]}\noutput: {root: 'file://"+root+"'}\n"+textJob)
		o = n.outcome(0, "run", path)
		return o.Ranges[0].Compacted > 0
	}))
	r := o.Ranges[0]
	if r.Start != 0 || r.End != 300 || r.Data+r.Compacted != 300 || r.Data < 7 || o.Rows != r.Data || r.Gap != 0 {
		t.Errorf("of a compacted log: %+v", r)
	}
	n.clean(root)
	put(300, 100)
	if o := n.outcome(0, "run", path); o.Ranges[0].Start != 300 || o.Ranges[0].End != 400 {
		t.Errorf("it goes on: %+v", o.Ranges)
	}
	put(400, 300) // takes the values of before
	n.eventually("what was loaded is compacted", time.Minute, n.onceChanged("keys-0", func() bool {
		_, code, said := n.try("verify", "--root", root, "--against-log")
		return code == 8 && strings.Contains(said, "compaction removed")
	}))
	n.clean(root)
}

// onceChanged is a question that is asked again only when the segments of a
// partition are others: compaction looks for work every 15 s.
func (n *node) onceChanged(partition string, ask func() bool) func() bool {
	seen := ""
	return func() bool {
		segments, err := filepath.Glob(filepath.Join(n.dir, "data", partition, "*.log"))
		if err != nil {
			n.t.Fatal(err)
		}
		var now strings.Builder
		for _, file := range segments {
			if info, err := os.Stat(file); err == nil { // else it has just gone
				fmt.Fprintln(&now, file, info.Size())
			}
		}
		if now.String() == seen {
			return false
		}
		seen = now.String()
		return ask()
	}
}

// TestProofPartitionsAddedUnderRun adds partitions while a run is under way: it
// loads what it planned, and the next one loads the new partitions from their
// starts.
func TestProofPartitionsAddedUnderRun(t *testing.T) {
	t.Parallel()
	needPython(t)
	n := startNode(t)
	n.run("topic", "create", "grows", "--partitions", "1")
	n.send(byHand("zstd"), wide("grows", 0, 20_000, 30)...)
	path, root := n.job("grows", numbersJob)
	c := n.spawn(nil, "run", path, "-o", "json")
	c.says("revision", 60*time.Second) // it is under way
	n.run("topic", "alter", "grows", "--partitions", "3")
	for p := range int32(2) {
		n.send(byHand("zstd"), wide("grows", p+1, 500, 5)...)
	}
	if code := c.wait(2 * time.Minute); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.said.String())
	}
	o := n.outcome(0, "run", path)
	if len(o.Ranges) != 2 || o.Ranges[0].Start != 0 || o.Ranges[0].End != 500 || o.Ranges[1].Partition != 2 {
		t.Errorf("the new partitions: %+v", o.Ranges)
	}
	if rows, distinct := rowsOf(t, root); rows != distinct || rows != 20_000-207+2*(500-6) {
		t.Errorf("%d rows, %d different", rows, distinct)
	}
	n.run("verify", "--root", root, "--against-log")
}

// TestProofRetentionUnderRun removes records a run has planned and not read yet:
// it ends with the gap named, and with a reason given the next one loads the rest
// and counts what is gone.
func TestProofRetentionUnderRun(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for round := range 5 {
		topic := fmt.Sprintf("ebb-%d", round)
		n.run("topic", "create", topic, "--partitions", "1")
		n.send(byHand("none"), wide(topic, 0, 20_000, 3)...)
		path, root := n.job(topic, numbersJob)
		c := n.spawn(nil, "run", path, "--parallelism", "1", "--fetch-bytes", "64KiB")
		c.says("revision", 60*time.Second) // the columns are known; it reads from the start once more
		n.trim(topic, 19_900)
		code := c.wait(2 * time.Minute)
		if code == 0 {
			continue // it was faster
		}
		said := c.said.String()
		if code != 8 || !strings.Contains(said, topic+"/0") || !strings.Contains(said, "19900") || !strings.Contains(said, "--accept-gap") {
			t.Fatalf("exit code %d: %s", code, said)
		}
		if tree := treeOf(t, root); len(folders(t, root)) != 0 {
			t.Errorf("it published %v", tree)
		}
		n.refused(8, []string{topic + "/0", "--accept-gap"}, "run", path)
		o := n.outcome(0, "run", path, "--accept-gap", "the disk was small")
		if r := o.Ranges[0]; r.Start != 0 || r.Gap != 19_900 || r.Data+r.Quarantined != 100 {
			t.Errorf("with the gap accepted: %+v", r)
		}
		if rec := commitOf(t, root, 0); rec.Why != "the disk was small" || rec.Inputs[0].Gap != 19_900 {
			t.Errorf("the ledger keeps %q, %+v", rec.Why, rec.Inputs)
		}
		n.clean(root)
		n.run("verify", "--root", root, "--against-log") // a gap that was accepted is no difference
		return
	}
	t.Error("no run was caught before it had read everything")
}
