package main

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/jobs"
	"sawlog/loader"
)

// TestLastRevision: the plan of a run that met columns it did not know went on as
// another one. Who looks the first one up after a crash finds what has become of it.
func TestLastRevision(t *testing.T) {
	n := startNode(t)
	n.run("topic", "create", "grown", "--partitions", "1")
	path, root := n.job("grown", "")
	n.send(nil, &kgo.Record{Topic: "grown", Value: []byte(`{"a":1}`)}, &kgo.Record{Topic: "grown", Value: []byte(`{"a":1,"b":2}`)})
	out := n.outcome(0, "run", path)
	job, err := readJob(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{brokers: func() []string { return []string{n.listen} }, log: slog.New(slog.DiscardHandler), timeout: patience}
	set := jobs.Set{Dataset: "grown"}
	ledger, err := r.ledger(t.Context(), job, set)
	if err != nil || ledger == nil {
		t.Fatal(root, err)
	}
	refs, err := ledger.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	replaced := 0
	for _, ref := range refs {
		if ref.Plan == nil {
			continue // the one that was committed
		}
		replaced++
		if last, err := lastRevision(t.Context(), ledger, ref.ID); err != nil || last != out.Plan {
			t.Errorf("plan %s became %s, want %s: %v", ref.ID, last, out.Plan, err)
		}
		found, err := r.Committed(t.Context(), job, set, ref.ID)
		if err != nil || found == nil || found.Plan != out.Plan || found.Rows != 2 {
			t.Errorf("committed: %+v, %v", found, err)
		}
		if err := r.Abandon(t.Context(), job, set, ref.ID, out.Run, "ann"); loader.ExitCode(err) != loader.ExitConflict {
			t.Errorf("abandoned: %v", err)
		}
	}
	if replaced == 0 {
		t.Errorf("no plan was revised: %+v", refs)
	}
	if last, err := lastRevision(t.Context(), ledger, "0123456789abcdef"); err != nil || last != "0123456789abcdef" {
		t.Errorf("a plan that was never written: %s, %v", last, err)
	}
}
