package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/jobs"
	"sawlog/loader"
)

// memoryJournal keeps a job history for one test.
type memoryJournal struct {
	mu   sync.Mutex
	keys map[string]bool // that are there
}

func (j *memoryJournal) Append(_ context.Context, key, value []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if value == nil {
		delete(j.keys, string(key))
	} else {
		j.keys[string(key)] = true
	}
	return nil
}

func (*memoryJournal) Replay(context.Context, func(key, value []byte) error) error { return nil }

func (j *memoryJournal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.keys)
}

// TestProofHistoryIsBounded: of runs that are no longer remembered the plans and
// commits remain, and all that needs no more than those: each can be looked up,
// verified and made again, and the next load goes on where the last one ended.
func TestProofHistoryIsBounded(t *testing.T) {
	t.Parallel()
	const kept, made = 3, 9
	n := startNode(t)
	n.run("topic", "create", "short", "--partitions", "1")
	path, root := n.job("short", textJob)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	journal := &memoryJournal{keys: map[string]bool{}}
	r := &runner{brokers: func() []string { return []string{n.listen} }, log: slog.New(slog.DiscardHandler), timeout: 30 * time.Second}
	s, err := jobs.Open(t.Context(), jobs.Config{Journal: journal, Runner: r, Keep: kept})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Apply(t.Context(), text, path, "ann", false); err != nil {
		t.Fatal(err)
	}
	var runs []string
	for i := range made {
		n.send(nil, &kgo.Record{Topic: "short", Value: fmt.Append(nil, "line ", i)})
		started, err := s.Trigger(t.Context(), jobs.Trigger{Job: "short", By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, started[0].Run)
		n.eventually("the run has ended", 60*time.Second, func() bool {
			r, err := s.Run(started[0].Run)
			return errors.Is(err, jobs.ErrNotFound) || err == nil && r.Status == jobs.Committed
		})
	}
	n.eventually("the old runs are forgotten", 30*time.Second, func() bool { return len(s.Runs(jobs.RunFilter{})) == kept })
	if has := journal.len(); has > 1+kept {
		t.Errorf("the history has %d entries", has)
	}
	for i, run := range runs {
		if _, err := s.Run(run); errors.Is(err, jobs.ErrNotFound) != (i < made-kept) {
			t.Errorf("run %d: %v", i, err)
		}
		var report loader.RerunReport
		if err := json.Unmarshal(n.run("rerun", run, "--root", root, "-o", "json"), &report); err != nil || report.Identical != 1 || report.Changed+report.Restored != 0 {
			t.Errorf("run %d made again: %+v, %v", i, report, err)
		}
		var verified loader.VerifyReport
		if err := json.Unmarshal(n.run("verify", run, "--root", root, "--against-log", "-o", "json"), &verified); err != nil || !verified.OK || verified.Rows != 1 {
			t.Errorf("run %d verified: %+v, %v", i, verified, err)
		}
	}
	commits := n.commits(root)
	// A server that ended between the commit of a run and its mirror comes back.
	n.run("group", "delete", "sawlog.short", "--yes")
	spec, err := jobs.Parse(text, path)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.Committed(t.Context(), spec, jobs.Set{Dataset: "short"}, commits[len(commits)-1].Plan)
	if at := n.committedOf("sawlog.short")[0]; err != nil || o == nil || at != made {
		t.Errorf("the group is at %d after %+v, %v", at, o, err)
	}
	if len(commits) != made || contiguous(t, commits) != made {
		t.Errorf("%d commits", len(commits))
	}
	for i, c := range commits {
		if c.Run != runs[i] || c.By == "" || c.Plan == "" {
			t.Errorf("commit %d is of run %s by %q", i, c.Run, c.By)
		}
	}
}
