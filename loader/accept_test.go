package loader

import (
	"strings"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/loader/sink/local"
	"sawlog/offsets"
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

// Whatever the job file says, an hour has one folder and a folder is of one hour:
// a rule that would put rows elsewhere is refused at every door, before any work.
func TestDataSetKeepsItsBuckets(t *testing.T) {
	changes := map[string]struct {
		change func(*Spec)
		words  []string
	}{
		"zone":                 {func(s *Spec) { s.Zone = "America/New_York" }, []string{"partition_by.zone is America/New_York", "begun with UTC"}},
		"zone of half an hour": {func(s *Spec) { s.Zone = "Asia/Kolkata" }, []string{"partition_by.zone is Asia/Kolkata", "begun with UTC"}},
		"unit":                 {func(s *Spec) { s.Unit = UnitDay }, []string{"partition_by.unit is day", "begun with hour"}},
		"path":                 {func(s *Spec) { s.Path = "dt=%Y-%d-%m/hr=%H" }, []string{"partition_by.path is dt=%Y-%d-%m/hr=%H", "begun with dt=%Y-%m-%d/hr=%H"}},
		"fields":               {func(s *Spec) { s.Fields = []string{"path"} }, []string{`partition_by.fields are ["path"]`, "begun with []"}},
	}
	earliest, latest := offsets.Bound{Kind: offsets.Earliest}, offsets.Bound{Kind: offsets.Latest}
	asks := map[string]PlanAsk{
		"plan": {}, "backfill": {Kind: Backfill}, "replay": {Replay: true},
		"supersede of all":   {Kind: Supersede, Bounds: &offsets.Query{Start: earliest, End: latest}},
		"supersede of a run": {Kind: Supersede, Again: &Again{Of: []string{"run-1"}}},
	}
	for what, c := range changes {
		r := newRig(t, 1)
		log := r.src.log("views", 0)
		log.put(t, 1, record.None, lines(view(1, 10, "/a"))...)
		first, _ := r.plan(PlanAsk{})
		if out, err := r.run(first); err != nil || out.Status != StatusCommitted {
			t.Fatalf("%+v %v", out, err)
		}
		log.put(t, 1, record.None, lines(view(6, 10, "/b"))...)
		second, _ := r.plan(PlanAsk{})
		sound, before := r.spec, tree(t, r.d.Sink, "")
		c.change(&r.spec)
		refused := func(door string, err error) {
			t.Helper()
			t.Run(what+"/"+door, func(t *testing.T) {
				exits(t, err, ExitConflict, c.words...)
				if hint := err.(*Error).Hint; !strings.Contains(hint, "another output.root") {
					t.Errorf("no way out: %q", hint)
				}
			})
		}
		for door, ask := range asks {
			_, _, err := r.d.Plan(t.Context(), &r.spec, ask)
			refused(door, err)
		}
		_, err := r.d.PlanRewrite(t.Context(), RewriteAsk{Spec: &r.spec})
		refused("rewrite", err)
		bucket, err := newBucket(r.spec.resolved())
		if err != nil {
			t.Fatal(err)
		}
		second.Bucket = bucket // as a plan file of before
		_, err = r.run(second)
		refused("run of a plan", err)
		l, err := r.d.Ledger(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Commit(t.Context(), second, PlanID(second), "run-9", nil, CommitOptions{})
		refused("commit", err)
		if after := tree(t, r.d.Sink, ""); len(after) != len(before) {
			t.Errorf("%s: files %v, before %v", what, after, before)
		}
		r.spec = sound
		if out := r.load(PlanAsk{}); out.Status != StatusCommitted || out.Rows != 1 {
			t.Errorf("%s: with the rule of before %+v", what, out)
		}
		r.sound()
	}
}

// What does not decide where rows go may change with every load.
func TestDataSetTakesOtherRules(t *testing.T) {
	r := newRig(t, 1)
	r.spec.Zone, r.spec.Lateness = "Asia/Kolkata", time.Hour
	log := r.src.log("views", 0)
	load := func() {
		t.Helper()
		log.put(t, 1, record.None, lines(view(1+r.runs, 10, "/a"))...)
		if out := r.load(PlanAsk{}); out.Status != StatusCommitted || out.Rows != 1 {
			t.Errorf("%+v", out)
		}
		r.sound()
	}
	load()
	for _, change := range []func(){
		func() { r.spec.Lateness = 0 },
		func() { r.spec.Zone = "Asia/Calcutta" }, // the same by its name of before
		func() { r.spec.Format, r.spec.Codec = formatJSONL, "gzip" },
		func() { r.spec.TargetBytes, r.spec.Merge = 1<<20, mergeNever },
		func() { r.spec.MaxBad.Count, r.spec.Hold = 3, time.Hour },
		func() { r.spec.Decode.Metadata = []string{"_offset"} },
	} {
		change()
		load()
	}
	// A data set that holds no hour yet may begin with any rule.
	r = newRig(t, 1)
	log = r.src.log("views", 0)
	log.put(t, 1, record.None, lines("no record")...)
	if out := r.load(PlanAsk{}); out.Quarantined != 1 {
		t.Fatalf("%+v", out)
	}
	r.spec.Unit = UnitDay
	load()
}

// A zone whose rules a new release has may move an hour into another's folder. Where
// that is so already it stays so, for late rows, for what takes the place of rows,
// and for a rewrite, in whatever order hours are met.
func TestFolderOfTwoHours(t *testing.T) {
	f := NewFold()
	f.Hours[3600] = &Hour{Dirs: []string{"dt=1970-01-01/hr=01", "dt=1970-01-01/hr=01/old", "dt=1970-01-01/hr=00"}}
	f.Hours[0] = &Hour{Dirs: []string{"dt=1970-01-01/hr=00"}}
	file := func(hour int64, name string, values ...string) File {
		return File{Path: name, Hour: &hour, Values: values}
	}
	for _, c := range []struct {
		kind  Kind
		files []File
		words []string
	}{
		{Load, []File{file(3600, "dt=1970-01-01/hr=01/a"), file(7200, "dt=1970-01-01/hr=02/a"), {Path: "q"}}, nil},
		{Load, []File{file(7200, "dt=1970-01-01/hr=01/a")}, []string{"dt=1970-01-01/hr=01 is", "1970-01-01T01", "1970-01-01T02"}},
		{Load, []File{file(7200, "dt=1970-01-01/hr=01/k=v/a", "v")}, []string{"dt=1970-01-01/hr=01 is"}},
		{Load, []File{file(7200, "x/a"), file(10800, "x/b")}, []string{"x is"}},
		{Load, []File{file(0, "dt=1970-01-01/hr=00/a"), file(3600, "dt=1970-01-01/hr=00/b")}, nil},
		{Supersede, []File{file(3600, "dt=1970-01-01/hr=00/b"), file(0, "dt=1970-01-01/hr=00/a")}, nil},
		{Load, []File{file(7200, "dt=1970-01-01/hr=00/a")}, []string{"dt=1970-01-01/hr=00 is", "1970-01-01T00", "1970-01-01T02"}},
		{Compact, []File{file(7200, "x/a"), file(10800, "x/b")}, nil},
	} {
		for range 20 {
			err := f.sharesNoFolder(&Record{Kind: c.kind, Files: c.files})
			if c.words != nil {
				exits(t, err, ExitConflict, c.words...)
			} else if err != nil {
				t.Fatalf("%s %+v: %v", c.kind, c.files, err)
			}
		}
	}
}
