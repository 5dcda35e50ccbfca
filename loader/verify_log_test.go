package loader

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// comparedRig has loaded, in two runs, records of two partitions and three
// hours, with bad ones and a tombstone among them, four to a batch.
func comparedRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 2)
	r.spec.Merge, r.spec.Codec = mergeNever, "none" // encoders made in a bubble are of no use outside
	first := r.src.log("views", 0)
	first.put(t, 4, record.None, lines(view(9, 0, "/a"), view(9, 1, "/b"), view(10, 0, "/c"), "bad", view(11, 0, "/d"), view(9, 5, "/e"))...)
	first.put(t, 4, record.None, record.Record{Timestamp: 1_700_000_000_000, Key: []byte("k")}, record.Record{Timestamp: 1_700_000_000_000, Value: []byte(view(10, 9, "/f"))})
	r.src.log("views", 1).put(t, 4, record.Zstd, lines(view(9, 2, "/g"), view(11, 3, "/h"))...)
	r.load(PlanAsk{})
	first.put(t, 4, record.None, lines(view(10, 20, "/i"), view(11, 20, "/j"), view(11, 21, "/k"))...)
	r.load(PlanAsk{})
	return r
}

// rewrite puts other values in place of a batch.
func (l *sourceLog) rewrite(t *testing.T, batch int, recs ...record.Record) {
	t.Helper()
	w := record.NewBuilder(record.None, 0)
	for _, r := range recs {
		w.Append(r)
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(l.batches[batch].BaseOffset(), 0)
	l.batches[batch] = b
}

// againstLog verifies; the answer is its report and its exit code.
func (r *rig) againstLog(what string) (*VerifyReport, error) {
	r.t.Helper()
	l, err := r.d.Ledger(r.t.Context(), "", "")
	if err != nil {
		r.t.Fatal(err)
	}
	report, err := l.VerifyAgainstLog(r.t.Context(), what, r.src, nil)
	if report == nil || report.Log == nil {
		r.t.Fatalf("no report: %v", err)
	}
	return report, err
}

// states are the states of the hours, in their order.
func states(r *VerifyReport) string {
	var all []string
	for _, h := range r.Log.Hours {
		all = append(all, h.State)
	}
	return strings.Join(all, " ")
}

// said is every problem, a line each.
func said(r *VerifyReport) string {
	var b strings.Builder
	for _, p := range r.Problems {
		b.WriteString(p.Kind + " " + p.Path + " " + p.Detail + "\n")
	}
	return b.String()
}

func TestVerifyAgainstLog(t *testing.T) {
	for name, c := range map[string]struct {
		harm   func(t *testing.T, r *rig)
		what   string
		states string
		gone   int
		says   []string // of the problems; none = no problem
	}{
		"as it was loaded": {states: "equal equal equal"},
		"one run":          {what: "run-2", states: "equal equal"},
		"other value": {
			harm: func(t *testing.T, r *rig) {
				r.src.log("views", 0).rewrite(t, 3, lines(view(10, 20, "/i"), view(11, 20, "/CHANGED"), view(11, 21, "/k"))...)
			},
			states: "equal equal differs",
			says:   []string{"log dt=2026-11-29/hr=11/views-", "hour 2026-11-29T11:00:00Z, views/0=8..11: the log makes 2 rows of other values; the offsets are the same"},
		},
		"other hour": {
			harm: func(t *testing.T, r *rig) {
				r.src.log("views", 0).rewrite(t, 3, lines(view(10, 20, "/i"), view(11, 20, "/j"), view(10, 21, "/k"))...)
			},
			states: "equal differs differs",
			says: []string{
				"the log makes 2 rows, the file has 1; the first that differs: views/0 offset 10 is not in the file",
				"the log makes 1 rows, the file has 2; the first that differs: partition 0 offset 10 of the file is not in the log",
			},
		},
		"an hour of its own": {
			harm: func(t *testing.T, r *rig) {
				r.src.log("views", 0).rewrite(t, 3, lines(view(12, 20, "/i"), view(11, 20, "/j"), view(11, 21, "/k"))...)
			},
			states: "equal differs equal differs",
			says:   []string{"hour 2026-11-29T12:00:00Z, views/0=8..11: the log makes 1 rows, the ledger has no such file"},
		},
		"a bad record more": {
			harm: func(t *testing.T, r *rig) {
				r.src.log("views", 0).rewrite(t, 0, lines("worse", view(9, 1, "/b"), view(10, 0, "/c"), "bad")...)
			},
			states: "differs equal equal",
			says:   []string{"the log has 2 bad records, the file 1", "the record counts [6 1 1 0 0 0]", "offset 0 of the file is not in the log"},
		},
		"retention": {
			harm:   func(_ *testing.T, r *rig) { r.src.log("views", 0).start = 2 },
			states: "gone equal equal", gone: 1,
		},
		"retention over a run": {
			harm:   func(_ *testing.T, r *rig) { r.src.log("views", 0).start = 9 },
			states: "gone gone gone", gone: 2,
		},
		"topic made again": {
			harm:   func(_ *testing.T, r *rig) { r.src.topics[0].id = offsets.TopicID{9, 9} },
			states: "gone gone gone", gone: 3,
		},
		"topic gone": {
			harm:   func(_ *testing.T, r *rig) { r.src.topics[0].name = "others" },
			states: "gone gone gone", gone: 3,
		},
		"compacted since": {
			harm: func(t *testing.T, r *rig) {
				r.src.topics[0].policy = "compact"
				log := r.src.log("views", 0)
				log.batches = append(log.batches[:1:1], log.batches[2:]...) // 4 and 5, of hours 11 and 9
			},
			states: "gone equal gone", gone: 1,
		},
		"a hole": {
			harm: func(t *testing.T, r *rig) {
				log := r.src.log("views", 0)
				log.batches = append(log.batches[:1:1], log.batches[2:]...)
			},
			states: "gone gone gone",
			says:   []string{"log views/0 0..8 cannot be read again: views/0: offsets 4..6 are missing inside the log"},
		},
		"a file of other rows": {
			harm: func(t *testing.T, r *rig) {
				files, err := filepath.Glob(filepath.Join(r.root, "dt=2026-11-29", "hr=09", "views-*-00000-*.parquet"))
				other, err2 := filepath.Glob(filepath.Join(r.root, "dt=2026-11-29", "hr=11", "views-*-00000-*000011-*.parquet"))
				if err != nil || err2 != nil || len(files) != 1 || len(other) != 1 {
					t.Fatalf("%v %v: %v %v", files, other, err, err2)
				}
				raw, err := os.ReadFile(other[0])
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(files[0], raw, 0o644); err != nil {
					t.Fatal(err)
				}
			},
			states: "differs equal equal",
			says: []string{
				"changed dt=2026-11-29/hr=09/views-",
				"hour 2026-11-29T09:00:00Z, views/0=0..8: the log makes the 3 rows of the ledger, the file that is there has 2; the first that differs: views/0 offset 0 is not in the file",
			},
		},
		"a file lost": {
			harm: func(t *testing.T, r *rig) {
				files, err := filepath.Glob(filepath.Join(r.root, "dt=2026-11-29", "hr=10", "views-*.parquet"))
				if err != nil || len(files) != 2 {
					t.Fatalf("%v: %v", files, err)
				}
				if err := os.Remove(files[0]); err != nil {
					t.Fatal(err)
				}
			},
			states: "equal differs equal",
			says:   []string{"missing dt=2026-11-29/hr=10/views-", "the file that is there has 0"},
		},
		"loaded again": {
			harm: func(_ *testing.T, r *rig) {
				p, _ := r.plan(PlanAsk{Kind: Supersede, Bounds: query(bound(offsets.AtOffset, 0), bound(offsets.AtOffset, 1))})
				if out, err := r.run(p); err != nil || out.Status != StatusCommitted {
					r.t.Fatalf("%+v: %v", out, err)
				}
			},
			states: "equal equal equal",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := comparedRig(t)
			if c.harm != nil {
				c.harm(t, r)
			}
			report, err := r.againstLog(c.what)
			if got := states(report); got != c.states {
				t.Errorf("hours are %s, want %s", got, c.states)
			}
			if len(report.Log.Gone) != c.gone {
				t.Errorf("gone: %+v, want %d ranges", report.Log.Gone, c.gone)
			}
			sound := c.gone == 0 && len(c.says) == 0
			if report.OK != sound || (err == nil) != sound || err != nil && ExitCode(err) != ExitMismatch {
				t.Errorf("ok %t, error %v", report.OK, err)
			}
			for _, text := range c.says {
				if !strings.Contains(said(report), text) {
					t.Errorf("no problem says %q", text)
				}
			}
			if len(c.says) == 0 && len(report.Problems) > 0 || t.Failed() {
				t.Errorf("it says:\n%s%+v", said(report), report.Log)
			}
		})
	}
}

// TestVerifyAgainstLogCounts holds what is read again against what was loaded, and
// has every file compared by its values.
func TestVerifyAgainstLogCounts(t *testing.T) {
	r := comparedRig(t)
	report, err := r.againstLog("")
	if err != nil || report.Log.Digested != 7 || report.Log.Counted != 0 || report.Log.Rows != 11 || report.Log.Offsets != 13 {
		t.Errorf("%+v: %v", report.Log, err)
	}
	var logged, filed int64
	for _, h := range report.Log.Hours {
		logged, filed = logged+h.Log, filed+h.Files
	}
	if logged != 11 || filed != 11 {
		t.Errorf("the hours hold %d rows of the log and %d of files, want 11", logged, filed)
	}
}

// TestVerifyAgainstLogCutOff meets a log that ends before what was loaded of it:
// others are asked first, and then it is told.
func TestVerifyAgainstLogCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := comparedRig(t)
		log := r.src.log("views", 0)
		log.batches, log.end, log.stable = log.batches[:3], 8, 8
		began := time.Now()
		report, err := r.againstLog("")
		if ExitCode(err) != ExitMismatch || states(report) != "equal gone gone" ||
			!strings.Contains(said(report), "log views/0 8..11 cannot be read again: views/0: offset 10 is beyond the end of the log, 8") {
			t.Errorf("%s: %v\n%s", states(report), err, said(report))
		}
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("it was believed after %s", took)
		}
	})
}

// TestVerifyAgainstLogOfRewritten follows rows into the files they were merged
// into, and doesn't look for those of an hour that was dropped.
func TestVerifyAgainstLogOfRewritten(t *testing.T) {
	r := small(t)
	out := r.rewrite(RewriteAsk{})
	check := func(log ...int64) {
		t.Helper()
		report, err := r.againstLog("")
		var got []int64
		for _, h := range report.Log.Hours {
			got = append(got, h.Log)
		}
		if err != nil || !slices.Equal(got, log) {
			t.Errorf("rows of the hours %v, want %v: %v\n%s", got, log, err, said(report))
		}
	}
	check(6, 6)
	_, err := r.ledger().VerifyAgainstLog(t.Context(), out.Run, r.src, nil)
	exits(t, err, ExitConflict, "nothing to compare")
	hour := r.now.Unix()/86400*86400 + 9*3600
	if _, _, err := r.ledger().Drop(t.Context(), "drop-1", DropAsk{Hours: &HourSpan{hour, hour + 3600}}, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	check(6)
	r.src.log("views", 0).put(t, 10, record.None, lines(view(9, 59, "/late"))...)
	r.load(PlanAsk{})
	check(1, 6)
}
