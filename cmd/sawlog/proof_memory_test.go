package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/loader"
)

// slack is what a process may have resident besides what it was given: the program,
// the runtime, and garbage not yet collected.
const slack = 64 << 20

// TestProofRunMemoryIsFlat loads a topic, and one of ten times the records: neither the
// process that carries the run out nor the greatest of its tasks takes more memory for
// it, but for a quarter. SAWLOG_MEMORY_RECORDS says how many records there are in all.
func TestProofRunMemoryIsFlat(t *testing.T) {
	t.Parallel() // its limits are of memory alone
	records := 300_000
	if text := os.Getenv("SAWLOG_MEMORY_RECORDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			t.Fatalf("SAWLOG_MEMORY_RECORDS=%q: want a number of records", text)
		}
		records = n
	}
	n := startNode(t)
	const topic, partitions, tasks, memory = "flood", 4, 2, 192 << 20
	n.run("topic", "create", topic, "--partitions", fmt.Sprint(partitions))
	load := func(from, upTo int) (driver, task int64) {
		n.flood(topic, partitions, from, upTo)
		root := filepath.Join(n.dir, "warehouse", fmt.Sprint(upTo))
		path := n.write("flood.yaml", fmt.Sprintf("name: flood\nsource: {topics: [flood]}\noutput: {root: 'file://%s', target_file_size: 32MiB}\nschema: [{name: n, type: int64}, {name: text, type: string}]\n", root)+numbersJob)
		c := n.spawn(nil, "run", path, "--parallelism", fmt.Sprint(tasks), "--memory", fmt.Sprint(memory), "-o", "json")
		peaks := c.peaks(t)
		var o loader.Outcome
		if err := json.Unmarshal(c.out.Bytes(), &o); err != nil || o.Rows != int64(upTo) {
			t.Fatalf("%d rows of %d records, %v: %s", o.Rows, upTo, err, c.said.String())
		}
		driver = peaks[c.cmd.Process.Pid]
		delete(peaks, c.cmd.Process.Pid)
		if len(peaks) == 0 {
			t.Fatal("no task was seen")
		}
		task = slices.Max(slices.Collect(maps.Values(peaks)))
		t.Logf("%d records in %d files by %d tasks seen: driver %d MiB, greatest task %d MiB", upTo, o.Files, len(peaks), driver>>20, task>>20)
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		return driver, task
	}
	driver, task := load(0, records/10)
	moreDriver, moreTask := load(records/10, records)
	// A short run may end between two looks; a process that loads has more than 48 MiB.
	driver = max(driver, 48<<20)
	if limit := driver + driver/4; moreDriver > limit {
		t.Errorf("the driver took %d MiB for %d records, %d MiB for %d", driver>>20, records/10, moreDriver>>20, records)
	}
	if records >= 4_000_000 && moreTask > task+task/4 { // a tenth of fewer doesn't fill a task's memory
		t.Errorf("a task took %d MiB where there were %d records, %d MiB where there were %d", task>>20, records/10, moreTask>>20, records)
	}
	if limit := int64(memory/tasks + slack); moreTask > limit {
		t.Errorf("a task took %d MiB, more than its share and %d", moreTask>>20, slack>>20)
	}
}

// flood sends records that go to 24 hours in no order.
func (n *node) flood(topic string, partitions, from, upTo int) {
	n.t.Helper()
	const piece = 50_000
	for from < upTo {
		var records []*kgo.Record
		for ; from < upTo && len(records) < piece; from++ {
			at := firstHour.Add(time.Duration(from*7919%24) * time.Hour)
			value := fmt.Appendf(nil, `{"at":%q,"n":%d,"text":"%032x%032x%032x"}`, at.Format(time.RFC3339), from, from*2654435761, from*40503, from*97)
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(from % partitions), Value: value})
		}
		n.send(byHand("lz4"), records...)
	}
}

// peaks waits for the process and tells the most memory that it and each of its
// children had, in bytes by process.
func (c *child) peaks(t *testing.T) map[int]int64 {
	t.Helper()
	peaks := map[int]int64{}
	for end := time.Now().Add(time.Hour); ; {
		select {
		case err := <-c.ended:
			if err != nil {
				t.Fatalf("%s: %v: %s", strings.Join(c.cmd.Args, " "), err, c.said.String())
			}
			c.ended <- err
			return peaks
		case <-time.After(50 * time.Millisecond): // the peak stands until a process ends
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not end within an hour", strings.Join(c.cmd.Args, " "))
		}
		files, err := filepath.Glob("/proc/[0-9]*/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			pid, parent, peak := statusOf(file)
			if pid == c.cmd.Process.Pid || parent == c.cmd.Process.Pid {
				peaks[pid] = max(peaks[pid], peak)
			}
		}
	}
}

// statusOf reads a process, its parent and its peak of memory in bytes; of one that
// has ended all are 0.
func statusOf(file string) (pid, parent int, peak int64) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, 0
	}
	for line := range strings.Lines(string(raw)) {
		name, rest, _ := strings.Cut(line, ":")
		value, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB")) // others are no numbers
		switch name {
		case "Pid":
			pid = value
		case "PPid":
			parent = value
		case "VmHWM":
			peak = int64(value) << 10
		}
	}
	return pid, parent, peak
}
