package jobs

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"sawlog/loader"
)

// goldenRecords are one record of each kind with every field set.
func goldenRecords(t *testing.T) []entry {
	t.Helper()
	when := at(t, "2026-11-29T14:00:00Z")
	number := int64(41)
	r := &Run{
		Dataset: "pageviews-hourly", Topic: "pageviews", Tick: when, UpTo: when, Kind: ByTick, Seq: 7, By: "scheduler",
		Reason: "no brokers", Hint: "start one", Exit: 6, Attempt: 2, AcceptBad: true, AcceptGap: "lost on 29 Nov",
		NotBefore: when.Add(time.Minute), Queued: when, Started: when.Add(time.Second), Ended: when.Add(3 * time.Second),
		Phases: []Phase{{"plan", 120}, {"load", 1880}}, Ledger: &number, Seen: map[string]int64{"duplicate_keys": 3},
		Outcome: loader.Outcome{
			Run: "pageviews-hourly-20261129T140000Z", Job: "pageviews-hourly", Status: Committed, Plan: "0123456789abcdef",
			Rows: 90, Quarantined: 7, Skipped: 2, Files: 3, Bytes: 4096,
			Ranges: []loader.OutcomeRange{{Topic: "pageviews", Partition: 1, Start: 100, End: 200, Account: loader.Account{Data: 90, Skipped: 2, Quarantined: 7, Control: 1}}},
			Hours:  []loader.OutcomeHour{{Hour: "2026-11-29T13:00:00Z", Rows: 90, Late: 4}},
		},
	}
	return []entry{
		jobEntry(Job{
			Name: "pageviews-hourly", Text: hourly, Path: "job.yaml", By: "ann", At: when.Add(-time.Hour), Generation: 2,
			Since: when.Add(-time.Hour), Paused: true, PauseReason: "maintenance, by ann",
		}),
		tickEntry(&Tick{Job: "pageviews-hourly", Tick: when, From: when.Add(-2 * time.Hour), Merged: 2, Runs: []string{r.Run}, At: when, Why: CatchupLatest}),
		runEntry(r),
		{key: "run/gone-20261129T140000Z"},
		jobEntry(Job{
			Name: "views", Text: "name: views\n", Path: "views.yaml", At: when, Generation: 1, Since: when,
			Topics: []string{}, Forgotten: when.Add(-24 * time.Hour),
		}),
		runEntry(goldenItemRun(when)),
		backfillEntry(&Backfill{
			ID: "views-backfill-20261129T140000Z-00ff", Job: "views", From: when.Add(-2 * time.Hour), To: when, Only: OnlyFailed, Order: NewestFirst,
			Status: BackfillCancelled, Cut: true, Round: 1, By: "ann", Reason: "cancelled by bob", ChangedBy: "bob", AcceptGap: "lost on 29 Nov",
			Created: when, Ended: when.Add(time.Minute),
		}),
		itemsEntry("views-backfill-20261129T140000Z-00ff", []Item{
			{Tick: when, From: when.Add(-time.Hour), Dataset: "views.v.a", Topic: "v.a", Was: Failed, Action: actionRetry, Run: "views.v.a-20261129T140000Z", Status: Committed, Rows: 90},
			{Record: &number, Dataset: "views.v.a", Topic: "v.a", Was: Committed, Action: actionSupersede, Run: "views-backfill-20261129T140000Z-00ff-0001"},
		}),
	}
}

// goldenItemRun is a run of a backfill that had to finish the plan of another,
// was interrupted, and whose end was told.
func goldenItemRun(when time.Time) *Run {
	return &Run{
		Dataset: "views.v.a", Topic: "v.a", Tick: when, Kind: ByBackfill, Seq: 8, By: "ann", Attempt: 1,
		Backfill: "views-backfill-20261129T140000Z-00ff", Round: 1, Resumed: []string{"fedcba9876543210"},
		Attempts: []Attempt{
			{Number: 1, Started: when, Status: Interrupted, Reason: "taken up after a restart"},
			{Number: 2, Started: when.Add(time.Minute), Ended: when.Add(2 * time.Minute), Status: Failed, Exit: 6, Reason: "no brokers", Phases: []Phase{{"plan", 60_000}}},
		},
		Tasks:   []Task{{TaskProgress: loader.TaskProgress{Split: 3, Attempt: "1b4e28ba", Phase: "read", Offsets: 5, Total: 10, Rows: 4, Bad: 1, Files: 2, Fetched: 512, Held: 7}, MS: 60, Error: "killed"}},
		Notices: []Told{{N: 0, Event: "failed", To: "0 webhook https://hooks.example", State: ToldGivenUp, Tries: 5, Error: "webhook answered 502 Bad Gateway"}},
		Outcome: loader.Outcome{Run: "views.v.a-20261129T140000Z", Job: "views", Status: Failed},
	}
}

func TestJournalRecordsAreGolden(t *testing.T) {
	var got bytes.Buffer
	for _, e := range goldenRecords(t) {
		key, value, err := e.bytes()
		if err != nil {
			t.Fatal(err)
		}
		got.Write(key)
		got.WriteByte('\t')
		got.Write(value)
		got.WriteByte('\n')
	}
	golden(t, "testdata/journal.v1", got.Bytes())
}

func TestGoldenJournalReplays(t *testing.T) {
	text, err := os.ReadFile("testdata/journal.v1")
	if err != nil {
		t.Fatal(err)
	}
	f := newFold()
	for l := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
		var v []byte
		if value != "" {
			v = []byte(value)
		}
		if err := f.apply([]byte(key), v); err != nil {
			t.Fatal(err)
		}
	}
	j, r := f.jobs["pageviews-hourly"], f.runs["pageviews-hourly-20261129T140000Z"]
	if j == nil || j.spec == nil || !j.Paused || len(j.ticks) != 1 || j.ticks[0].Merged != 2 || !j.cursor().Equal(at(t, "2026-11-29T14:00:00Z")) {
		t.Errorf("job: %+v", j)
	}
	if v := f.jobs["views"]; v == nil || v.Topics == nil || len(v.Topics) != 0 || v.Forgotten.IsZero() {
		t.Errorf("job: %+v", v)
	}
	b := f.view(f.backfills["views-backfill-20261129T140000Z-00ff"], true)
	if b.Status != BackfillCancelled || b.Open() || b.Total != 2 || b.Counts[Failed] != 1 || b.Counts[Cancelled] != 1 || b.ChangedBy != "bob" {
		t.Errorf("backfill: %+v", b)
	}
	if it := f.runs["views.v.a-20261129T140000Z"]; it == nil || len(it.Attempts) != 2 || it.Tasks[0].Split != 3 || it.Notices[0].Tries != 5 || it.Resumed[0] != "fedcba9876543210" {
		t.Errorf("run of an item: %+v", it)
	}
	if r == nil || r.Rows != 90 || *r.Ledger != 41 || r.Ranges[0].Control != 1 || r.Seen["duplicate_keys"] != 3 || f.seq != 8 {
		t.Errorf("run: %+v", r)
	}
}

func TestJournalRefusals(t *testing.T) {
	for _, tt := range []struct{ key, value, want string }{
		{"run/a", `{"v":2}`, "journal record run/a has version 2, this binary knows 1: it was written by a newer one"},
		{"run/a", `{`, "journal record run/a: unexpected end of JSON input"},
		{"war/a", `{"v":1}`, `journal record war/a: this release knows no "war": a newer one wrote it`},
	} {
		journal := newJournal().open()
		if err := journal.Append(context.Background(), []byte(tt.key), []byte(tt.value)); err != nil {
			t.Fatal(err)
		}
		_, err := Open(context.Background(), Config{Journal: journal, Runner: &fakeRunner{}})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// A job whose file a later version no longer takes stays in the list, and says why.
func TestBrokenJobIsKept(t *testing.T) {
	journal := newJournal().open()
	key, value, err := jobEntry(Job{Name: "old", Text: "name: old\nfurniture: oak\n", Path: "old.yaml"}).bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Append(context.Background(), key, value); err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), Config{Journal: journal, Runner: &fakeRunner{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	st, err := s.Get("old")
	if err != nil || st.State != "broken" || !strings.Contains(st.Reason, "old.yaml:2:1: furniture: unknown key") {
		t.Errorf("got %+v, %v", st, err)
	}
	if _, err := s.Trigger(context.Background(), Trigger{Job: "old"}); err == nil {
		t.Error("a broken job runs")
	}
}
