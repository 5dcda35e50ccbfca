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
			Ranges: []loader.OutcomeRange{{Topic: "pageviews", Partition: 1, Start: 100, End: 200, Data: 90, Skipped: 2, Quarantined: 7, Control: 1}},
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
	if r == nil || r.Rows != 90 || *r.Ledger != 41 || r.Ranges[0].Control != 1 || r.Seen["duplicate_keys"] != 3 || f.seq != 7 {
		t.Errorf("run: %+v", r)
	}
}

func TestJournalRefusals(t *testing.T) {
	for _, tt := range []struct{ key, value, want string }{
		{"run/a", `{"v":2}`, "journal record run/a has version 2, this binary knows 1: it was written by a newer one"},
		{"run/a", `{`, "journal record run/a: unexpected end of JSON input"},
		{"war/a", `{"v":1}`, "journal record war/a: unknown kind"},
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

func TestNotices(t *testing.T) {
	spec := mustParse(t, minimal+"notify: [{webhook: 'http://h/', on: [failed]}, {exec: [cat], on: [failed, sealed]}]\n")
	var got []string
	m := newMailer(func(_ context.Context, to Notify, body []byte) error {
		got = append(got, to.Webhook+strings.Join(to.Exec, " ")+" "+string(body))
		return nil
	}, nil)
	m.post(spec, Notice{Event: "failed", Job: "a", Run: "r"})
	m.post(spec, Notice{Event: "sealed", Job: "a", Hours: []string{"2026-11-29T13:00:00Z"}})
	m.post(spec, Notice{Event: "stale", Job: "a"})
	for len(m.box) > 0 {
		m.deliver(context.Background(), <-m.box)
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], `http://h/ {"event":"failed","job":"a"`) || !strings.Contains(got[2], "2026-11-29T13:00:00Z") {
		t.Errorf("got %q", got)
	}
}
