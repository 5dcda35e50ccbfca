package loader

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/formats"
	"sawlog/offsets"
)

// small loads three runs of two partitions into two hours: twelve small files.
func small(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 2)
	r.spec.Merge = mergeNever
	for run := range 3 {
		for p := range 2 {
			r.src.log("views", int32(p)).put(t, 10, record.None,
				lines(view(9, run*10+p, fmt.Sprintf("/%d-%d", run, p)), "bad", view(10, run*10+p, "/x"))...)
		}
		r.load(PlanAsk{})
	}
	return r
}

// content is every visible row, sorted.
func (r *rig) content(columns ...string) []string {
	var out []string
	for _, row := range r.rows(columns...) {
		out = append(out, strings.Join(row, " "))
	}
	slices.Sort(out)
	return out
}

func (r *rig) ledger() *Ledger {
	r.t.Helper()
	l, err := r.d.Ledger(r.t.Context(), "", "")
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

func (r *rig) rewrite(ask RewriteAsk) *Outcome {
	r.t.Helper()
	p, err := r.d.PlanRewrite(r.t.Context(), ask)
	if err != nil || p == nil {
		r.t.Fatalf("plan %v, %v", p, err)
	}
	out, err := r.run(p)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) sound() {
	r.t.Helper()
	if report, err := r.ledger().Verify(r.t.Context(), ""); err != nil {
		r.t.Fatalf("verify: %v\n%+v", err, report)
	}
}

func TestRewrite(t *testing.T) {
	r := small(t)
	before := r.content("path", "_partition", "_offset", "n")
	out := r.rewrite(RewriteAsk{})
	if out.Status != StatusCommitted || out.Files != 2 || out.Rows != 12 || out.Number != 3 {
		t.Errorf("outcome %+v", out)
	}
	if after := r.content("path", "_partition", "_offset", "n"); !slices.Equal(after, before) {
		t.Errorf("rows\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	var order []string
	for _, row := range r.rows("_partition", "_offset") {
		order = append(order, strings.Join(row[1:], "/"))
	}
	if want := "0/0 0/3 0/6 1/0 1/3 1/6 0/2 0/5 0/8 1/2 1/5 1/8"; strings.Join(order, " ") != want {
		t.Errorf("order %v, want %s", order, want)
	}
	r.sound()
	if p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{}); p != nil || err != nil {
		t.Errorf("nothing is left to merge: %v, %v", p, err)
	}
	// A lost file comes back from the retired ones, with its bytes.
	files := r.ledger().Fold().VisibleOf(3)
	if err := os.Remove(filepath.Join(r.root, files[0].Path)); err != nil {
		t.Fatal(err)
	}
	report, err := r.d.Rerun(t.Context(), "3")
	if err != nil || report.Restored != 1 || report.Identical != 1 {
		t.Errorf("rerun %+v, %v", report, err)
	}
	r.sound()
	// The old runs have nothing visible but their quarantine files.
	if report, err = r.d.Rerun(t.Context(), "run-1"); err != nil || report.Retired != 4 || report.Identical != 2 {
		t.Errorf("rerun of a run that was merged: %+v, %v", report, err)
	}
	// What was merged is loaded again as a whole.
	q := &offsets.Query{Partitions: []int32{1}, Start: bound(offsets.AtOffset, 3), End: bound(offsets.AtOffset, 4)}
	p, v := r.plan(PlanAsk{Kind: Supersede, Bounds: q})
	if len(v.Ranges) != 2 || len(p.Retires) != 8 {
		t.Errorf("ranges %+v, retires %v", v.Ranges, p.Retires)
	}
	if out, err = r.run(p); err != nil || out.Rows != 12 {
		t.Errorf("%+v %v", out, err)
	}
	if after := r.content("path", "_partition", "_offset", "n"); !slices.Equal(after, before) {
		t.Errorf("rows\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	r.sound()
}

// TestHoursAroundTheEpoch has rows on both sides of 1970, whose hours have keys
// below, at and above 0: a window takes what it names, and no window is all.
func TestHoursAroundTheEpoch(t *testing.T) {
	r := newRig(t, 1)
	hours := []string{"1969-12-31T22", "1969-12-31T23", "1970-01-01T00", "1970-01-01T01"}
	for range 2 {
		for _, h := range hours {
			r.src.log("views", 0).put(t, 10, record.None, lines(fmt.Sprintf(`{"ts":"%s:30:00Z","path":"%s","n":1}`, h, h))...)
		}
		r.load(PlanAsk{})
	}
	if out := r.rewrite(RewriteAsk{}); out.Files != 4 || out.Rows != 8 {
		t.Errorf("rewritten: %d files of %d rows, want all 4 hours' 8", out.Files, out.Rows)
	}
	left := map[string]int{hours[0]: 2, hours[1]: 2, hours[2]: 2, hours[3]: 2}
	for i, span := range []HourSpan{{-3600, 0}, {0, 3600}, {-7200, -3600}} {
		rec, files, err := r.ledger().Drop(t.Context(), "drop", DropAsk{Hours: &span}, CommitOptions{})
		if err != nil || len(files) != 1 || len(rec.Retires) != 1 {
			t.Fatalf("drop of %v: %d files, %v", span, len(files), err)
		}
		delete(left, []string{hours[1], hours[2], hours[0]}[i])
		got := map[string]int{}
		for _, row := range r.rows("path") {
			got[strings.Trim(row[1], `"`)]++
		}
		if !maps.Equal(got, left) {
			t.Errorf("after a drop of %v: %v, want %v", span, got, left)
		}
	}
	r.sound()
}

// TestRewriteOrders merges files whose ranges lie between each other: rows are
// put in order one by one, or refused where nothing tells the order.
func TestRewriteOrders(t *testing.T) {
	for _, metadata := range [][]string{nil, {"_offset"}} {
		r := newRig(t, 2)
		r.spec.Decode.Metadata, r.spec.Merge = metadata, mergeAlways
		for run := range 2 {
			for p := range 2 {
				r.src.log("views", int32(p)).put(t, 10, record.None, lines(view(9, run, "/a"), view(9, p, "/b"))...)
			}
			r.load(PlanAsk{})
		}
		p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{})
		if metadata != nil {
			exits(t, err, ExitConflict, "no column _partition")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.run(p); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, row := range r.rows("_partition", "_offset") {
			order = append(order, strings.Join(row[1:], "/"))
		}
		if want := "0/0 0/1 0/2 0/3 1/0 1/1 1/2 1/3"; strings.Join(order, " ") != want {
			t.Errorf("order %v, want %s", order, want)
		}
		r.sound()
	}
}

// TestRewriteDamaged has a file that is not what the ledger says: nothing is
// written.
func TestRewriteDamaged(t *testing.T) {
	r := small(t)
	v := r.ledger().Fold().VisibleOf(0)[3]
	name := filepath.Join(r.root, v.Path)
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	body[8] ^= 1
	if err := os.WriteFile(name, body, 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.run(p)
	exits(t, err, ExitMismatch, v.Path, "sha256")
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "rerun") {
		t.Errorf("no way out: %v", err)
	}
	if head := r.ledger().Fold().Head; head != 2 {
		t.Errorf("head %d", head)
	}
}

// widen declares the columns the data set has, one of them with another type.
func (r *rig) widen(name, typ string) {
	r.t.Helper()
	r.spec.Schema = &formats.Schema{}
	for _, f := range r.ledger().Fold().Schema.Fields {
		if f.Metadata() {
			continue
		}
		if f.Name == name {
			var err error
			if f.Type, err = formats.ParseType(typ); err != nil {
				r.t.Fatal(err)
			}
		}
		r.spec.Schema.Fields = append(r.spec.Schema.Fields, f)
	}
}

// TestRewriteWider gives a column a wider type: all files get it, with the same
// rows, and loads go on with it; a plan made before is a conflict.
func TestRewriteWider(t *testing.T) {
	r := small(t)
	r.src.log("views", 0).put(t, 10, record.None, lines(view(11, 0, "/old"))...)
	old, _ := r.plan(PlanAsk{})
	before := r.content("path", "_partition", "_offset")
	r.widen("n", "double")
	spec := r.spec
	_, _, err := r.d.Plan(t.Context(), &spec, PlanAsk{})
	exits(t, err, ExitConflict, "column n is int64")
	_, err = r.d.PlanRewrite(t.Context(), RewriteAsk{Spec: &spec, Hours: &HourSpan{1, 2}})
	exits(t, err, ExitUsage, "all hours")
	out := r.rewrite(RewriteAsk{Spec: &spec})
	if out.Rows != 12 {
		t.Errorf("outcome %+v", out)
	}
	if after := r.content("path", "_partition", "_offset"); !slices.Equal(after, before) {
		t.Errorf("rows\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	_, err = r.run(old)
	exits(t, err, ExitConflict, "n is double")
	r.src.log("views", 0).put(t, 10, record.None, lines(`{"ts":"2026-11-29T11:00:00Z","path":"/f","n":1.5}`)...)
	if out := r.load(PlanAsk{}); out.Rows != 2 || out.Quarantined != 0 {
		t.Errorf("outcome %+v", out)
	}
	r.sound()
	r.widen("n", "int64")
	spec = r.spec
	_, err = r.d.PlanRewrite(t.Context(), RewriteAsk{Spec: &spec})
	exits(t, err, ExitConflict, "no wider type")
	var feed []*Change
	if err := r.ledger().Changes(t.Context(), 2, func(c *Change) error { feed = append(feed, c); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(feed) != 2 || feed[0].Kind != Compact || len(feed[0].Added) != 2 || len(feed[0].Retired) != 12 || len(feed[0].Columns) != 1 ||
		feed[0].Columns[0].Type != "double" || len(feed[0].Hours) != 2 || feed[1].Kind != Load || len(feed[1].Offsets) != 1 || feed[1].Offsets[0].Start != 9 {
		t.Errorf("feed %+v %+v", feed[0], feed[1])
	}
}

// TestDropAndLoadAgain drops an hour and has it back by a supersede.
func TestDropAndLoadAgain(t *testing.T) {
	r := small(t)
	before := r.content("path", "_partition", "_offset")
	hour := r.now.Unix()/86400*86400 + 9*3600
	l := r.ledger()
	if rec, files, err := l.Drop(t.Context(), "d", DropAsk{Hours: &HourSpan{hour, hour + 3600}, DryRun: true}, CommitOptions{}); rec != nil || len(files) != 6 || err != nil {
		t.Fatalf("dry run: %v, %d files, %v", rec, len(files), err)
	}
	rec, files, err := l.Drop(t.Context(), "drop-1", DropAsk{Hours: &HourSpan{hour, hour + 3600}}, CommitOptions{By: "ann", Why: "asked to"})
	if err != nil || rec.Kind != Drop || len(files) != 6 || rec.By != "ann" || rec.Why != "asked to" {
		t.Fatalf("record %+v, %d files, %v", rec, len(files), err)
	}
	if rows := r.rows("path"); len(rows) != 6 {
		t.Errorf("%d rows are left, want 6", len(rows))
	}
	r.sound()
	_, _, err = r.ledger().Drop(t.Context(), "drop-2", DropAsk{Hours: &HourSpan{hour, hour + 3600}}, CommitOptions{})
	exits(t, err, ExitNotFound, "no visible file")
	if out := r.load(PlanAsk{}); out.Status != StatusCovered {
		t.Errorf("a load brought dropped rows back: %+v", out)
	}
	if _, _, err = r.ledger().Drop(t.Context(), "drop-2", DropAsk{Of: "run-1"}, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	loads, err := r.ledger().LoadsOf(t.Context(), hour, hour+3600)
	if err != nil || !slices.Equal(loads, []int64{0, 1, 2}) {
		t.Fatalf("loads of the hour %v, %v", loads, err)
	}
	for _, n := range loads {
		p, _ := r.plan(PlanAsk{Kind: Supersede, Again: &Again{Of: []string{fmt.Sprint(n)}}})
		if out, err := r.run(p); err != nil || out.Rows != 4 {
			t.Fatalf("%+v %v", out, err)
		}
	}
	if after := r.content("path", "_partition", "_offset"); !slices.Equal(after, before) {
		t.Errorf("rows\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
	if loads, err = r.ledger().LoadsOf(t.Context(), hour, hour+3600); err != nil || !slices.Equal(loads, []int64{5, 6, 7}) {
		t.Errorf("loads of the hour %v, %v", loads, err)
	}
	r.sound()
}

// TestLoadAgainNow replaces a run by what the job of today makes of it, and
// only its splits with bad records where that is asked.
func TestLoadAgainNow(t *testing.T) {
	r := newRig(t, 2)
	r.spec.Merge = mergeNever
	r.spec.Decode.Time.PlausibleTo = new(formats.Instant(r.now.UnixMicro()))
	r.src.log("views", 0).put(t, 10, record.None, lines(view(9, 0, "/a"), view(16, 0, "/too-new"))...)
	r.src.log("views", 1).put(t, 10, record.None, lines(view(9, 1, "/b"))...)
	if out := r.load(PlanAsk{}); out.Quarantined != 1 {
		t.Fatalf("%+v", out)
	}
	r.src.log("views", 0).put(t, 10, record.None, lines(view(9, 50, "/good"))...)
	r.load(PlanAsk{})
	_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"run-2"}, Bad: true}})
	exits(t, err, ExitNotFound, "no quarantined record")
	_, _, err = r.d.Plan(t.Context(), &r.spec, PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"run-9"}}})
	exits(t, err, ExitNotFound, "run-9")
	r.spec.Decode.Time.PlausibleTo = nil
	p, _ := r.plan(PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"run-1"}, Bad: true}})
	out, err := r.run(p)
	if err != nil || out.Rows != 2 || out.Quarantined != 0 || len(p.Retires) != 2 {
		t.Errorf("%+v %v, retires %v", out, err, p.Retires)
	}
	want := []string{`dt=2026-11-29/hr=09 "/a"`, `dt=2026-11-29/hr=09 "/b"`, `dt=2026-11-29/hr=09 "/good"`, `dt=2026-11-29/hr=16 "/too-new"`}
	if got := r.content("path"); !slices.Equal(got, want) {
		t.Errorf("rows %v", got)
	}
	r.sound()
	// The topic is made again: what was loaded of the old one can't be replaced.
	r.src.topics[0].id = offsets.TopicID{9}
	_, _, err = r.d.Plan(t.Context(), &r.spec, PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"run-2"}}})
	exits(t, err, ExitMismatch, "no more")
}

// TestRewriteFormats merges files of every format, and those of one into another:
// the rows stay, and a lost file comes back from the retired ones. The order of
// rows that lie between each other is kept, and columns get wider types.
func TestRewriteFormats(t *testing.T) {
	for _, tt := range []struct{ format, codec, to, toCodec string }{
		{"arrow", "zstd", "", ""}, {"arrow", "none", "jsonl", "gzip"}, {"jsonl", "gzip", "", ""}, {"jsonl", "zstd", "parquet", "snappy"}, {"parquet", "zstd", "arrow", "lz4"},
	} {
		t.Run(tt.format+" to "+tt.to, func(t *testing.T) {
			r := newRig(t, 2)
			r.spec.Format, r.spec.Codec = tt.format, tt.codec
			for run := range 3 {
				for p := range 2 {
					r.src.log("views", int32(p)).put(t, 10, record.None,
						lines(view(9, run*10+p, fmt.Sprintf("/%d-%d", run, p)), "bad", view(10, run*10+p, "/x"), fmt.Sprintf(`{"ts":"2026-11-29T09:00:00Z","tags":["a",null],"n":%d}`, -run))...)
				}
				r.load(PlanAsk{})
			}
			columns := []string{"path", "_partition", "_offset", "tags", "n"}
			before := r.content(columns...)
			ask := RewriteAsk{Spec: &r.spec}
			if tt.to != "" {
				r.spec.Format, r.spec.Codec = tt.to, tt.toCodec
			}
			if out := r.rewrite(ask); out.Files != 2 || out.Rows != 18 {
				t.Errorf("%+v", out)
			}
			if after := r.content(columns...); !slices.Equal(after, before) {
				t.Errorf("rows\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
			var order []string
			for _, row := range r.rows("_partition", "_offset") {
				order = append(order, strings.Join(row[1:], "/"))
			}
			if want := "0/0 0/3 0/4 0/7 0/8 0/11 1/0 1/3 1/4 1/7 1/8 1/11 0/2 0/6 0/10 1/2 1/6 1/10"; strings.Join(order, " ") != want {
				t.Errorf("order %v, want %s", order, want)
			}
			r.sound()
			writer := &Writer{Format: r.spec.Format, Codec: r.spec.Codec}
			files := r.ledger().Fold().VisibleOf(3)
			if len(files) != 2 || !strings.HasSuffix(files[0].Path, "."+writer.extension()) {
				t.Fatalf("files %+v", files)
			}
			if err := os.Remove(filepath.Join(r.root, files[0].Path)); err != nil {
				t.Fatal(err)
			}
			if report, err := r.d.Rerun(t.Context(), "3"); err != nil || report.Restored != 1 || report.Identical != 1 {
				t.Errorf("rerun %+v, %v", report, err)
			}
			r.sound()
			r.widen("n", "decimal(20,1)")
			if out := r.rewrite(RewriteAsk{Spec: &r.spec}); out.Files != 2 || out.Rows != 18 {
				t.Errorf("wider: %+v", out)
			}
			if after := r.content("path", "_partition", "_offset", "tags", "n"); !slices.Equal(after, tenths(before)) {
				t.Errorf("wider rows\n%s\nwere\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
			r.sound()
		})
	}
}

// tenths are rows whose last column gets a digit after the point.
func tenths(rows []string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = row + ".0"
	}
	slices.Sort(out)
	return out
}

// TestRewriteJSONText refuses to make strings of the JSON in files of lines.
func TestRewriteJSONText(t *testing.T) {
	r := newRig(t, 1)
	r.spec.Format = "jsonl"
	r.src.log("views", 0).put(t, 10, record.None, lines(`{"ts":"2026-11-29T09:00:00Z","x":1}`, `{"ts":"2026-11-29T09:00:00Z","x":"1"}`)...)
	r.load(PlanAsk{})
	r.widen("x", "string")
	_, err := r.d.PlanRewrite(t.Context(), RewriteAsk{Spec: &r.spec})
	exits(t, err, ExitConflict, "column x is json")
}
