package loader

import (
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/formats/parquet"
)

// TestOlderProfile loads under writer profile 1: reruns give those bytes again,
// until an amend makes the same rows under the newest profile.
func TestOlderProfile(t *testing.T) {
	r := newRig(t, 1)
	r.spec.Schema = benchSchema()
	r.src.log("views", 0).put(t, 100, record.Zstd, benchLines(3000, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), 1000)...)
	p, _ := r.plan(PlanAsk{})
	if p.Writer.Profile != parquet.Profile {
		t.Errorf("plans have writer profile %d", p.Writer.Profile)
	}
	p.Writer.Profile = 1
	if _, err := r.run(p); err != nil {
		t.Fatal(err)
	}
	before := r.rows("id")
	if len(before) != 3000 {
		t.Fatalf("%d rows", len(before))
	}
	l, err := r.d.Ledger(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	same := func() {
		t.Helper()
		if report, err := r.d.Rerun(t.Context(), "run-1"); err != nil || report.Identical != 3 {
			t.Fatalf("rerun: %+v, %v", report, err)
		}
	}
	same()
	rec, err := l.Amend(t.Context(), "run-1", "amend-1", CommitOptions{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if rec == nil || len(rec.Files) != 3 || rec.Profile != parquet.Profile {
		t.Fatalf("amend: %+v", rec)
	}
	same()
	after := r.rows("id")
	for i := range before {
		if i >= len(after) || before[i][1] != after[i][1] {
			t.Fatalf("row %d changed", i)
		}
	}
}

// TestUpgradeKeepsEncodings: files of an older plan that a newer profile makes again
// are for those who read the old ones, who may know no other encodings.
func TestUpgradeKeepsEncodings(t *testing.T) {
	for _, tt := range []struct {
		from      Writer
		encodings string
	}{
		{Writer{Profile: 1}, EncodingsPlain},
		{Writer{Profile: 2}, EncodingsPlain},
		{Writer{Profile: 3}, ""},
		{Writer{Profile: 3, Encodings: EncodingsPlain}, EncodingsPlain},
	} {
		w := tt.from
		if w.upgrade(3); w.Profile != 3 || w.Encodings != tt.encodings {
			t.Errorf("%+v becomes %+v", tt.from, w)
		}
		w = tt.from
		if w.upgrade(tt.from.Profile); w != tt.from {
			t.Errorf("%+v under its own profile becomes %+v", tt.from, w)
		}
	}
}
