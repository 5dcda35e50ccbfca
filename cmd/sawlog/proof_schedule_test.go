package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/jobs"
	"sawlog/loader"
)

// TestSoakScheduleAndBackfill kills the server by signal 9 anywhere, again and
// again, while ticks come due and backfills load again
// what was loaded. Each tick has one run, the loads are the log, offset after
// offset, and the data set holds each record once.
func TestSoakScheduleAndBackfill(t *testing.T) {
	t.Parallel() // it waits for the clock
	rounds := rounds(t, 4)
	n := startNode(t)
	const topic, every = "ticking", 2 * time.Second
	n.run("topic", "create", topic, "--partitions", "3")
	path, root := n.job(topic, textJob+"schedule: {every: 2s}\n")
	n.run("job", "apply", path)
	rnd := rand.New(rand.NewPCG(uint64(rounds), 5))
	var sent int64
	made, seen := map[string]bool{}, seenRuns{}
	for range rounds {
		var lines []*kgo.Record
		for range 20 + rnd.IntN(200) {
			sent++
			lines = append(lines, &kgo.Record{Topic: topic, Partition: int32(rnd.IntN(3)), Value: fmt.Append(nil, sent)})
		}
		n.send([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, lines...)
		seen.look(n, topic)
		if id := n.backfillAll(topic); id != "" {
			made[id] = true
		}
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond) // until it is killed
		n.kill()
		n.start()
	}
	n.eventually("all is loaded", 2*time.Minute, func() bool { return contiguous(t, loads(n.commits(root))) == sent })
	n.eventually("all backfills have ended", 5*time.Minute, func() bool {
		seen.look(n, topic)
		return !slices.ContainsFunc(n.backfills(), func(b jobs.BackfillView) bool { return b.Open() })
	})
	n.run("job", "pause", topic)
	seen.onceATick(n, topic, every)
	if inSoak() && seen.cutOff() == 0 {
		t.Errorf("%d kills met no run", rounds)
	}
	n.judgeBackfills(made)
	n.clean(root)
	var count struct{ Rows int64 }
	if err := json.Unmarshal(n.run("out", "count", "--root", root, "-o", "json"), &count); err != nil || count.Rows != sent {
		t.Errorf("%d rows of %d records, %v", count.Rows, sent, err)
	}
}

// loads are the commits that brought in what was new.
func loads(commits []loader.Record) []loader.Record {
	return slices.DeleteFunc(commits, func(rec loader.Record) bool { return rec.Kind != loader.Load })
}

// backfillAll loads again all that was loaded, unless that goes on already or
// nothing was loaded yet.
func (n *node) backfillAll(job string) string {
	n.t.Helper()
	out, code, said := n.try("backfill", job, "--from", "-2h", "--to", "now", "--only", "all", "-o", "json")
	if code == loader.ExitConflict {
		return ""
	}
	var b jobs.BackfillView
	if err := json.Unmarshal(out, &b); err != nil || code != 0 {
		n.t.Fatalf("exit code %d, %v: %s", code, err, said)
	}
	return b.ID
}

func (n *node) backfills() (list []jobs.BackfillView) {
	n.t.Helper()
	if err := json.Unmarshal(n.run("backfill", "list", "-o", "json"), &list); err != nil {
		n.t.Fatal(err)
	}
	return list
}

func (n *node) allRuns(job string) (runs []jobs.Run) {
	n.t.Helper()
	if err := json.Unmarshal(n.run("runs", "list", "--job", job, "--limit", "10000", "-o", "json"), &runs); err != nil {
		n.t.Fatal(err)
	}
	return runs
}

// judgeBackfills wants every backfill that was made to be remembered, and to have
// ended well.
func (n *node) judgeBackfills(made map[string]bool) {
	n.t.Helper()
	runs := 0
	list := n.backfills()
	for _, b := range list {
		if !made[b.ID] || b.Status != jobs.BackfillCompleted || b.Counts[jobs.Committed] != b.Total {
			n.t.Errorf("backfill %s is %s: %s", b.ID, b.Status, b.Say)
		}
		runs += b.Total
	}
	if len(list) != min(len(made), 50) || len(made) == 0 { // older ones are forgotten
		n.t.Errorf("%d backfills of %d", len(list), len(made))
	}
	n.t.Logf("%d backfills of %d runs", len(list), runs)
}
