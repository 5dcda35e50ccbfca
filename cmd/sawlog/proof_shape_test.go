package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestProofThousandPartitions loads, twice, a topic of a thousand partitions with
// next to nothing in each: a run makes two files an hour at most, not a thousand.
func TestProofThousandPartitions(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	const topic, partitions, hours = "many", 1000, 3
	n.run("topic", "create", topic, "--partitions", fmt.Sprint(partitions))
	path, root := n.job(topic, numbersJob)
	for run := range 2 {
		var records []*kgo.Record
		for i := range 2 * partitions {
			at := firstHour.Add(time.Duration(i%hours)*time.Hour + time.Duration(run)*time.Minute)
			records = append(records, &kgo.Record{
				Topic: topic, Partition: int32(i % partitions), Value: fmt.Appendf(nil, `{"at":%q,"n":%d}`, at.Format(time.RFC3339), i),
			})
		}
		n.send(byHand("none"), records...)
		if o := n.outcome(0, "run", path); o.Rows != 2*partitions || o.Quarantined != 0 || len(o.Ranges) != partitions {
			t.Fatalf("run %d: %d rows, %d quarantined of %d ranges", run, o.Rows, o.Quarantined, len(o.Ranges))
		}
		seen := folders(t, root)
		if len(seen) != hours {
			t.Errorf("hours %v", seen)
		}
		for dir := range seen {
			files, err := filepath.Glob(filepath.Join(root, dir, "*.parquet"))
			if err != nil {
				t.Fatal(err)
			}
			if len(files) == 0 || len(files) > 2*(run+1) {
				t.Errorf("run %d: %d files in %s", run, len(files), dir)
			}
		}
	}
	n.clean(root)
}

// TestProofBigTopicSplits plans topics of four times the target size and more: at
// least four tasks can work at a time, also where it is one partition.
func TestProofBigTopicSplits(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	const target = 1 << 20
	for name, counts := range map[string][]int{"one": {17_000}, "uneven": {11_000, 5_000, 900, 100}} {
		n.run("topic", "create", name, "--partitions", fmt.Sprint(len(counts)))
		size, total := 0, int64(0)
		for p, count := range counts {
			records := wideAt(name, int32(p), count, func(i int, _ *rand.Rand) int { return i % 2 })
			for _, r := range records {
				size += len(r.Value)
			}
			n.send(byHand("none"), records...)
			total += int64(count)
		}
		if size < 4*target {
			t.Fatalf("%s has %d bytes, less than four times the target", name, size)
		}
		root := filepath.Join(n.dir, "warehouse", name)
		path := n.write(name+".yaml", fmt.Sprintf("name: %s\nsource: {topics: [%s]}\noutput: {root: 'file://%s', target_file_size: 1MiB}\n", name, name, root)+numbersJob)
		file, err := readPlanFile(n.write(name+".json", string(n.run("plan", path, "-o", "json"))))
		if err != nil {
			t.Fatal(err)
		}
		if splits := file.Plan.Splits; len(splits) < 4 || int64(len(splits)) > int64(3*size/target) {
			t.Errorf("%s: %d bytes make %d splits of %d", name, size, len(splits), target)
		}
		if o := n.outcome(0, "run", path, "--parallelism", "4"); o.Rows+o.Quarantined != total {
			t.Errorf("%s: %d rows, %d quarantined of %d", name, o.Rows, o.Quarantined, total)
		}
		n.clean(root)
	}
}

// TestProofTopicReplacedUnderRun deletes a topic under a run that has planned it
// and makes another of its name: the run ends without a row of either, and the
// next one loads the new topic.
func TestProofTopicReplacedUnderRun(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for round := range 5 {
		topic := fmt.Sprintf("swapped-%d", round)
		n.run("topic", "create", topic, "--partitions", "1")
		n.send(byHand("none"), wide(topic, 0, 20_000, 3)...)
		path, root := n.job(topic, numbersJob)
		c := n.spawn(nil, "run", path, "--parallelism", "1", "--fetch-bytes", "64KiB")
		c.says("revision", 60*time.Second) // the columns are known; it reads from the start once more
		n.run("topic", "delete", topic, "--yes")
		n.run("topic", "create", topic, "--partitions", "2")
		n.send(byHand("none"), wide(topic, 0, 500, 2)...)
		code := c.wait(2 * time.Minute)
		if code == 0 {
			continue // it was faster
		}
		if said := c.said.String(); code != 3 && code != 8 || !strings.Contains(said, topic) {
			t.Fatalf("exit code %d: %s", code, said)
		}
		if tree := treeOf(t, root); len(folders(t, root)) != 0 {
			t.Errorf("it published %v", tree)
		}
		o := n.outcome(0, "run", path)
		if len(o.Ranges) != 1 || o.Ranges[0].End != 500 || o.Rows+o.Quarantined != 500 {
			t.Errorf("of the new topic: %+v", o)
		}
		n.clean(root)
		n.run("verify", "--root", root, "--against-log")
		return
	}
	t.Error("no run was caught before it had read everything")
}
