package loader

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/formats"
	"sawlog/loader/sink/local"
	"sawlog/offsets"
)

// rig is a source, a data set on local disk and a driver between them.
type rig struct {
	t    testing.TB
	src  *fakeSource
	d    *Driver
	spec Spec
	now  time.Time
	root string
	runs int
}

func newRig(t testing.TB, partitions int) *rig {
	t.Helper()
	r := &rig{t: t, src: newFakeSource("views", partitions), root: t.TempDir(), now: time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)}
	s, err := local.Open("file://" + r.root)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	r.d = &Driver{
		Cluster: r.src, Sink: s, Logger: quiet, Now: func() time.Time { return r.now }, By: "test",
		Engine: &InProcess{Cluster: r.src, Sink: s, Logger: quiet, Spool: t.TempDir()},
	}
	r.spec = Spec{
		Name: "views-hourly", Topics: []string{"views"}, Root: s.Root(),
		Decode: formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"ts"}, Format: "rfc3339", Zone: "UTC"}},
	}
	return r
}

func (r *rig) plan(ask PlanAsk) (*Plan, *Preview) {
	r.t.Helper()
	p, v, err := r.d.Plan(r.t.Context(), &r.spec, ask)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, v
}

// run carries a plan out.
func (r *rig) run(p *Plan, change ...func(*RunAsk)) (*Outcome, error) {
	r.runs++
	ask := RunAsk{Run: fmt.Sprintf("run-%d", r.runs), Parallelism: 2}
	for _, c := range change {
		c(&ask)
	}
	return r.d.Run(r.t.Context(), p, ask)
}

func (r *rig) load(ask PlanAsk) *Outcome {
	r.t.Helper()
	p, _ := r.plan(ask)
	out, err := r.run(p)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// rows reads every row of all visible files back, as JSON texts by column.
func (r *rig) rows(columns ...string) [][]string {
	r.t.Helper()
	l, err := r.d.Ledger(r.t.Context(), "", "")
	if err != nil {
		r.t.Fatal(err)
	}
	var out [][]string
	for _, v := range l.Fold().All() {
		if v.Hour == nil {
			continue
		}
		f, err := r.d.Sink.Open(v.Path)
		if err != nil {
			r.t.Fatal(err)
		}
		in, err := OpenRows(f, f.Size(), &v.File)
		if err != nil {
			r.t.Fatalf("%s: %v", v.Path, err)
		}
		rows := int64(0)
		err = in.Read(columns, 0, -1, func(row [][]byte) error {
			rows++
			line := []string{strings.TrimSuffix(v.Path[:strings.LastIndexByte(v.Path, '/')], "/")}
			for _, cell := range row {
				line = append(line, string(cell))
			}
			out = append(out, line)
			return nil
		})
		if err != nil || rows != v.Rows {
			r.t.Fatalf("%s has %d rows, the ledger says %d; %v", v.Path, rows, v.Rows, err)
		}
		if err := f.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	return out
}

func view(hour, minute int, path string) string {
	return fmt.Sprintf(`{"ts":"2026-11-29T%02d:%02d:00Z","path":%q,"n":%d}`, hour, minute, path, hour*100+minute)
}

func TestRunLoadsAndGoesOn(t *testing.T) {
	r := newRig(t, 2)
	r.src.log("views", 0).put(t, 2, record.Zstd, lines(view(9, 0, "/a"), view(9, 1, "/b"), view(10, 0, "/c"))...)
	r.src.log("views", 1).put(t, 2, record.None, lines(view(10, 5, "/d"), view(9, 59, "/e"))...)

	p, v := r.plan(PlanAsk{})
	if v.Status != PreviewReady || v.Rows != 5 || v.RowsAre != upperBound || len(v.Ranges) != 2 {
		t.Errorf("preview %+v", v)
	}
	out, err := r.run(p)
	if err != nil {
		t.Fatal(err)
	}
	if out.Status != StatusCommitted || out.Rows != 5 || out.Number != 0 || len(out.Hours) != 2 || out.Hours[0].Rows != 3 || out.Hours[1].Rows != 2 {
		t.Errorf("outcome %+v", out)
	}
	var got []string
	for _, row := range r.rows("path", "_partition", "_offset") {
		got = append(got, strings.Join(row, " "))
	}
	want := []string{
		`dt=2026-11-29/hr=09 "/a" 0 0`, `dt=2026-11-29/hr=09 "/b" 0 1`, `dt=2026-11-29/hr=09 "/e" 1 1`,
		`dt=2026-11-29/hr=10 "/c" 0 2`, `dt=2026-11-29/hr=10 "/d" 1 0`,
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// Nothing is left.
	if p, v = r.plan(PlanAsk{}); v.Status != PreviewCovered {
		t.Errorf("preview %+v", v)
	}
	if out, err = r.run(p); err != nil || out.Status != StatusCovered {
		t.Errorf("outcome %+v: %v", out, err)
	}
	// The next records, with a column that is new.
	r.src.log("views", 1).put(t, 2, record.None, lines(`{"ts":"2026-11-29T11:00:00Z","path":"/f","ref":"x"}`)...)
	out = r.load(PlanAsk{})
	if out.Status != StatusCommitted || out.Rows != 1 || len(out.Ranges) != 1 || out.Ranges[0].Start != 2 {
		t.Errorf("outcome %+v", out)
	}
	if n := len(r.rows("path")); n != 6 {
		t.Errorf("%d rows, want 6", n)
	}
	if at := r.src.groups["sawlog.views-hourly views/1"]; at != 3 {
		t.Errorf("mirrored offset %d, want 3", at)
	}
}

func TestRunIsCoveredByTheSamePlan(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 10, record.None, lines(view(9, 0, "/a"))...)
	r.spec.Schema = &formats.Schema{Fields: []formats.Field{{Name: "path", Type: &formats.Type{Kind: formats.String}}}}
	p, _ := r.plan(PlanAsk{})
	for i, want := range []string{StatusCommitted, StatusCovered} {
		out, err := r.run(p)
		if err != nil || out.Status != want {
			t.Errorf("run %d: %+v %v, want %s", i, out, err, want)
		}
	}
}

// A run that is interrupted before it carries splits out again, one that was
// damaged or those that a revision of its plan takes, doesn't count them as staged.
func TestRunInterruptedBeforeRepeats(t *testing.T) {
	for event, want := range map[string]string{"commit": "3 of 4", "revision": "0 of 4"} {
		t.Run(event, func(t *testing.T) {
			r := newRig(t, 1)
			var many []string
			for i := range 200 {
				many = append(many, view(i%24, i%60, "/x"))
			}
			log := r.src.log("views", 0)
			log.put(t, 10, record.None, lines(many...)...)
			r.spec.TargetBytes, r.spec.Merge = (log.size+3)/4, mergeNever
			p, _ := r.plan(PlanAsk{})
			ctx, cancel := context.WithCancel(t.Context())
			stop := func() {}
			r.d.Observe = func(e Event) {
				switch {
				case e.Kind != event:
				case event == "revision":
					cancel()
				default:
					spoil(t, filepath.Join(r.root, StageDir(e.Text, 0)))
					stop = cancel
				}
			}
			r.d.Engine = &overtaking{r.d.Engine, func() { stop() }, func() {}}
			_, err := r.d.Run(ctx, p, RunAsk{Run: "first", Parallelism: 1})
			exits(t, err, ExitInterrupted, "is open with "+want+" splits staged")
		})
	}
}

// spoil cuts off the data files in a folder.
func spoil(t *testing.T, dir string) {
	t.Helper()
	cut := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, StageSuffix) {
			return err
		}
		cut++
		return os.Truncate(name, 1)
	})
	if err != nil || cut == 0 {
		t.Fatalf("%d files spoilt, %v", cut, err)
	}
}

func TestRunInterruptedIsResumed(t *testing.T) {
	r := newRig(t, 1)
	var many []string
	for i := range 200 {
		many = append(many, view(i%24, i%60, "/x"))
	}
	r.src.log("views", 0).put(t, 10, record.None, lines(many...)...)
	r.spec.TargetBytes = (r.src.log("views", 0).size + 3) / 4
	r.spec.Merge = mergeNever
	p, _ := r.plan(PlanAsk{})
	if len(p.Splits) != 4 {
		t.Fatalf("%d splits", len(p.Splits))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := 0
	r.d.Observe = func(e Event) {
		if e.Kind == "attempt" && e.Err == nil {
			if ended++; ended == 2 {
				cancel()
			}
		}
	}
	out, err := r.d.Run(ctx, p, RunAsk{Run: "first", Parallelism: 1})
	exits(t, err, ExitInterrupted, "nothing was committed; plan "+PlanID(p)+" is open with 2 of 4 splits staged")
	if out.Status != StatusInterrupted {
		t.Fatalf("%+v", out)
	}
	r.d.Observe = nil
	again, v := r.plan(PlanAsk{})
	if v.Status != PreviewResume || PlanID(again) != PlanID(p) && again.Replaces == "" {
		t.Errorf("preview %s, plan %s, want %s resumed", v.Status, PlanID(again), PlanID(p))
	}
	if out, err = r.run(again); err != nil || out.Rows != 200 {
		t.Errorf("%+v %v", out, err)
	}
}

func TestRunTooBad(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 10, record.None, lines(view(9, 0, "/a"), "{", "nope", view(9, 1, "/b"))...)
	r.spec.MaxBad.Count = 1
	p, _ := r.plan(PlanAsk{})
	out, err := r.run(p)
	if ExitCode(err) != ExitPartial || out.Status != StatusFailed || out.Quarantined != 2 {
		t.Fatalf("%+v %v", out, err)
	}
	again, v := r.plan(PlanAsk{})
	if v.Status != PreviewResume {
		t.Errorf("preview %s", v.Status)
	}
	out, err = r.run(again, func(a *RunAsk) { a.AcceptBad = true })
	if err != nil || out.Status != StatusCommitted || out.Rows != 2 || out.Quarantined != 2 {
		t.Errorf("%+v %v", out, err)
	}
}

func TestRunOnlyBadRecords(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 10, record.None, lines("x", "[1]")...)
	out := r.load(PlanAsk{})
	if out.Status != StatusCommitted || out.Rows != 0 || out.Quarantined != 2 || out.Files != 1 || len(out.Hours) != 0 {
		t.Errorf("%+v", out)
	}
}

func TestRunNeedsMemory(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 10, record.None, lines(view(9, 0, "/a"))...)
	p, _ := r.plan(PlanAsk{})
	_, err := r.run(p, func(a *RunAsk) { a.Memory = 1 << 20 })
	if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v, want exit 2 about memory", err)
	}
}

func TestSupersede(t *testing.T) {
	r := newRig(t, 1)
	log := r.src.log("views", 0)
	log.put(t, 10, record.None, lines(view(9, 0, "/a"), "bad", view(10, 0, "/b"))...)
	r.load(PlanAsk{})
	log.put(t, 10, record.None, lines(view(10, 30, "/c"))...)
	r.load(PlanAsk{})
	q := &offsets.Query{Start: offsets.Bound{Kind: offsets.AtOffset, N: 1}, End: offsets.Bound{Kind: offsets.AtOffset, N: 2}}
	p, v := r.plan(PlanAsk{Kind: Supersede, Bounds: q})
	if len(p.Retires) != 3 || len(v.Ranges) != 1 || v.Ranges[0].Start != 0 || v.Ranges[0].End != 3 {
		t.Fatalf("retires %v, ranges %+v: want the whole first split", p.Retires, v.Ranges)
	}
	out, err := r.run(p)
	if err != nil || out.Rows != 2 || out.Quarantined != 1 {
		t.Errorf("%+v %v", out, err)
	}
	if n := len(r.rows("path")); n != 3 {
		t.Errorf("%d rows visible, want 3", n)
	}
}
