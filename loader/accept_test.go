package loader

import (
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/loader/sink/local"
)

// A plan under another root than it was made for: that root takes it if it goes on
// from there, has it already, or says why not and what would do, before any work.
func TestPlanUnderAnotherRoot(t *testing.T) {
	at := func(r *rig) *rig { // another root for the same job
		other := *r
		other.root = t.TempDir()
		s, err := local.Open("file://" + other.root)
		if err != nil {
			t.Fatal(err)
		}
		d := *r.d
		d.Sink = s
		d.Engine = &InProcess{Cluster: r.src, Sink: s, Logger: d.Logger, Spool: t.TempDir()}
		other.d, other.spec.Root = &d, s.Root()
		return &other
	}
	r := newRig(t, 1)
	log := r.src.log("views", 0)
	log.put(t, 1, record.None, lines(view(9, 0, "/a"), view(9, 1, "/b"))...)
	first, _ := r.plan(PlanAsk{})
	if _, err := r.run(first); err != nil {
		t.Fatal(err)
	}
	log.put(t, 1, record.None, lines(view(10, 0, "/c"), view(10, 1, "/d"))...)
	second, _ := r.plan(PlanAsk{})
	if second.Base != 0 {
		t.Fatalf("base %d", second.Base)
	}
	if out, err := r.run(first); err != nil || out.Status != StatusCovered { // as a revision with the columns of its records
		t.Errorf("%+v %v", out, err)
	}
	refused := func(r *rig, p *Plan, words ...string) {
		t.Helper()
		out, err := r.run(p)
		exits(t, err, ExitConflict, words...)
		if hint := err.(*Error).Hint; !strings.Contains(hint, "root") && !strings.Contains(hint, "make a new plan") {
			t.Errorf("no way out: %q", hint)
		}
		if left := tree(t, r.d.Sink, StagesDir); len(left) > 0 || out.Status != StatusFailed {
			t.Errorf("%s, staged %v", out.Status, left)
		}
	}
	empty := at(r)
	refused(empty, second, "goes on from record 0", "holds 0 records")
	if out, err := empty.run(first); err != nil || out.Status != StatusCommitted {
		t.Fatalf("%+v %v", out, err)
	}
	for _, want := range []string{StatusCommitted, StatusCovered} {
		if out, err := empty.run(second); err != nil || out.Status != want {
			t.Errorf("%+v %v, want %s", out, err, want)
		}
	}
	short := at(r)
	half := *first
	half.Inputs, half.Splits = clip(first, 1)
	if _, err := short.run(&half); err != nil {
		t.Fatal(err)
	}
	refused(short, second, "views/0", "continues at offset 1, not at 2")
	refused(short, first, "loaded already")
	fielded := at(r)
	other := *first
	other.Bucket.Fields = []BucketField{{Name: "path"}}
	if _, err := fielded.run(&other); err != nil {
		t.Fatal(err)
	}
	refused(fielded, second, `partition_by.fields are []`, `begun with ["path"]`)
	foreign := at(r)
	foreign.spec.Name = "others"
	foreign.load(PlanAsk{})
	refused(foreign, first, `belongs to data set "others"`)
}

// clip is what a plan of one partition reads, ended before an offset.
func clip(p *Plan, end int64) (in []PlanInput, splits []Split) {
	in = append(in, p.Inputs...)
	in[0].End = toOffset(end)
	s := p.Splits[0]
	s.Ranges = append([]SplitRange{}, s.Ranges...)
	s.Ranges[0].End = toOffset(end)
	return in, []Split{s}
}
