package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/jobs"
	"sawlog/loader"
)

// TestProofAnnounced: on a day of 23 hours and on one of 25, what is said of the
// runs of ticks is what they load, offset for offset: of a backfill, of a window
// loaded from a file, and of a run of all that is left.
func TestProofAnnounced(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	const topic = "days"
	n.run("topic", "create", topic, "--partitions", "2", "--config", "retention.ms=-1")
	n.send(byHand("none"), slices.Concat(stamped(topic, "2025-03-29T20:00:00Z", 30), stamped(topic, "2025-10-25T20:00:00Z", 30))...)
	path, _ := n.job(topic, textJob+"schedule: {cron: '15 * * * *', timezone: Europe/Berlin}\n")
	n.run("job", "apply", path)
	n.announcedBackfill(23, topic, "2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z")
	var dry jobs.BackfillView
	n.json(&dry, "backfill", topic, "--from", "2025-10-25T22:00:00Z", "--to", "2025-10-26T23:00:00Z", "--dry-run", "-o", "json")
	if dry.Total != 25 || dry.Rows == 0 {
		t.Errorf("of a day of 25 hours %d ticks of %d rows are said", dry.Total, dry.Rows)
	}
	n.announcedRest(topic)
	n.announcedWindow(topic)
}

// stamped are records of a topic, one in ten minutes, for some hours.
func stamped(topic, from string, hours int) (records []*kgo.Record) {
	start, err := time.Parse(time.RFC3339, from)
	if err != nil {
		panic(err)
	}
	for i := range hours * 6 {
		at := start.Add(time.Duration(i) * 10 * time.Minute)
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % 2), Timestamp: at, Value: fmt.Append(nil, at)})
	}
	return records
}

// announcedBackfill carries out the ticks of a local day, as its preview says.
func (n *node) announcedBackfill(ticks int, job, from, to string) {
	n.t.Helper()
	var dry, done jobs.BackfillView
	line := []string{"backfill", job, "--from", from, "--to", to, "-o", "json"}
	n.json(&dry, append(line, "--dry-run")...)
	n.json(&done, append(line, "--wait")...)
	if dry.Total != ticks || done.Total != ticks || done.Rows != dry.Rows || done.Rows == 0 {
		n.t.Errorf("%s: %d ticks of %d rows were said, %d of %d were done, want %d", from, dry.Total, dry.Rows, done.Total, done.Rows, ticks)
	}
	for i, it := range done.Items {
		var run jobs.Run
		n.json(&run, "runs", "get", it.Run, "-o", "json")
		said := dry.Items[i]
		if !said.Tick.Equal(it.Tick) || !sameRanges(said.Window.Ranges, run.Outcome.Ranges) || said.Window.Rows != run.Rows {
			n.t.Errorf("tick %s: said %+v of %v, loaded %d rows of %+v of %v", it.Tick, said.Window, said.Tick, run.Rows, run.Outcome.Ranges, it.Tick)
		}
	}
}

// announcedRest loads all that is left, as the plan says.
func (n *node) announcedRest(job string) {
	n.t.Helper()
	var plan planFile
	var run jobs.Run
	n.json(&plan, "plan", job, "-o", "json")
	n.json(&run, "run", job, "--wait", "-o", "json")
	if !sameRanges(plan.Preview.Ranges, run.Outcome.Ranges) || plan.Preview.Rows != run.Rows || run.Rows == 0 {
		n.t.Errorf("planned %d rows of %+v, loaded %d of %+v", plan.Preview.Rows, plan.Preview.Ranges, run.Rows, run.Outcome.Ranges)
	}
}

// announcedWindow loads the ticks of a window from a job file.
func (n *node) announcedWindow(job string) {
	n.t.Helper()
	other := n.write("other.yaml", fmt.Sprintf("name: other\nsource: {topics: [%s]}\noutput: {root: 'file://%s/other'}\n", job, n.dir)+
		textJob+"schedule: {cron: '15 * * * *', timezone: Europe/Berlin}\n")
	var said []tickPreview
	var done []loader.Outcome
	line := []string{"run", other, "--window", "2025-10-25T22:00:00Z..2025-10-26T04:00:00Z", "-o", "json"}
	n.json(&said, append(line, "--dry-run")...)
	if _, err := os.Stat(n.dir + "/other"); err == nil {
		n.t.Error("a dry run made its root")
	}
	n.json(&done, line...)
	if len(said) != 6 || len(done) != 6 {
		n.t.Fatalf("%d ticks were said, %d were loaded, want 6", len(said), len(done))
	}
	for i, o := range done {
		if !sameRanges(said[i].Ranges, o.Ranges) || said[i].Rows != o.Rows {
			n.t.Errorf("tick %s: said %+v, loaded %d rows of %+v", said[i].Tick, said[i].Window, o.Rows, o.Ranges)
		}
	}
}

// json calls the command line and reads what it prints.
func (n *node) json(into any, args ...string) {
	n.t.Helper()
	if err := json.Unmarshal(n.run(args...), into); err != nil {
		n.t.Fatalf("%v: %v", args, err)
	}
}

// sameRanges compares what was said with what was loaded.
func sameRanges(said []loader.PreviewRange, done []loader.OutcomeRange) bool {
	return slices.EqualFunc(said, done, func(a loader.PreviewRange, b loader.OutcomeRange) bool {
		return a.Topic == b.Topic && a.Partition == b.Partition && a.Start == b.Start && a.End == b.End
	})
}
