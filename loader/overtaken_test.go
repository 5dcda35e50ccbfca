package loader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sawlog/broker/record"
	"sawlog/formats"
)

// overtaking is an engine before whose work another driver commits the plan and
// sweeps its stage away, or loads the ranges with another plan.
type overtaking struct {
	Engine
	before, after func()
}

func (o *overtaking) Run(ctx context.Context, w Work) error {
	o.before()
	err := o.Engine.Run(ctx, w)
	o.after()
	return err
}

// TestOvertakenWhileWorking has another driver commit the same plan, and sweep,
// while the splits of this one are at work, before its attempts or after them.
// The run is covered, also where the other had to revise the plan first: the
// revision is of the same offsets.
func TestOvertakenWhileWorking(t *testing.T) {
	declared := &formats.Schema{}
	for name, kind := range map[string]formats.Kind{"ts": formats.String, "path": formats.String} {
		declared.Fields = append(declared.Fields, formats.Field{Name: name, Type: &formats.Type{Kind: kind}})
	}
	for name, c := range map[string]struct {
		early  bool
		schema *formats.Schema
	}{
		"before, same plan":    {true, declared},
		"after, same plan":     {false, declared},
		"before, revised plan": {true, nil},
		"after, revised plan":  {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.spec.Schema = c.schema
			r.src.log("views", 0).put(t, 2, record.None, lines(view(9, 0, "/a"), view(10, 0, "/b"))...)
			p, _ := r.plan(PlanAsk{})
			winner := *r.d
			win := func() {
				if out, err := winner.Run(t.Context(), p, RunAsk{Run: "winner"}); err != nil || out.Status != StatusCommitted {
					t.Errorf("the other driver: %+v, %v", out, err)
				}
			}
			r.d.Engine = &overtaking{winner.Engine, func() {
				if c.early {
					win()
				}
			}, func() {
				if !c.early {
					win()
				}
			}}
			out, err := r.d.Run(t.Context(), p, RunAsk{Run: "loser"})
			if err != nil || out.Status != StatusCovered {
				t.Errorf("status %s, exit %d: %v", out.Status, ExitCode(err), err)
			}
			if rows := r.rows("path"); len(rows) != 2 {
				t.Errorf("%d rows", len(rows))
			}
		})
	}
}

// TestRevisedMeanwhile has another driver revise the plan and stop, and a sweep
// take the stage of the old plan away: a driver that is still at work on that one
// ends with a conflict, and the next run carries the revision on.
func TestRevisedMeanwhile(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 2, record.None, lines(view(9, 0, "/a"), view(10, 0, "/b"))...)
	p, _ := r.plan(PlanAsk{})
	other := *r.d
	revised := ""
	r.d.Engine = &overtaking{other.Engine, func() {}, func() {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		other.Observe = func(e Event) {
			if e.Kind == "revision" {
				revised = strings.Fields(e.Text)[1]
				stop()
			}
		}
		out, err := other.Run(ctx, p, RunAsk{Run: "other"})
		if ExitCode(err) != ExitInterrupted || out.Status != StatusInterrupted {
			t.Errorf("the other driver: %+v, %v", out, err)
		}
		l, err := other.Ledger(t.Context(), p.Dataset, p.Job)
		if err == nil {
			_, err = l.Sweep(t.Context(), false)
		}
		if err != nil {
			t.Error(err)
		}
	}}
	_, err := r.d.Run(t.Context(), p, RunAsk{Run: "paused"})
	exits(t, err, ExitConflict, PlanID(p), "revised", "plan "+revised)
	r.d = &other
	r.d.Observe = nil
	next, v := r.plan(PlanAsk{})
	if v.Status != PreviewResume || next.Replaces != PlanID(p) {
		t.Errorf("the next run is %s of %+v", v.Status, next)
	}
	if out, err := r.run(next); err != nil || out.Rows != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	r.sound()
}

// TestFilesTakenMeanwhile has another driver retire, or change, files that a plan
// reads and replaces, before it reads them and after: its driver ends with a
// conflict that names the file, and changes nothing.
func TestFilesTakenMeanwhile(t *testing.T) {
	hour := int64(0)
	acts := map[string]func(r *rig) error{
		"dropped": func(r *rig) error {
			_, _, err := r.ledger().Drop(t.Context(), "drop", DropAsk{Hours: &HourSpan{hour, hour + 3600}}, CommitOptions{})
			return err
		},
		"superseded": func(r *rig) error {
			p, _ := r.plan(PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"1"}}})
			_, err := r.run(p)
			return err
		},
		"compacted": func(r *rig) error {
			p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{Hours: &HourSpan{hour, hour + 3600}})
			if err == nil {
				_, err = r.run(p)
			}
			return err
		},
		"amended": func(r *rig) error {
			_, err := r.ledger().Amend(t.Context(), "1", "amend", CommitOptions{})
			return err
		},
	}
	plans := map[Kind]func(r *rig) *Plan{
		Compact: func(r *rig) *Plan {
			p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Supersede: func(r *rig) *Plan {
			p, _ := r.plan(PlanAsk{Kind: Supersede, Again: &Again{Of: []string{"0", "1"}}})
			return p
		},
	}
	for name, act := range acts {
		for kind, planOf := range plans {
			for _, pause := range []string{"plan", "commit"} {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, name, pause), func(t *testing.T) {
					r := byOldWriter(t)
					hour = r.now.Unix()/86400*86400 + 9*3600
					p := planOf(r)
					slow := *r.d
					slow.Observe = func(e Event) {
						if e.Kind != pause {
							return
						}
						if err := act(r); err != nil {
							t.Errorf("the other driver: %v", err)
						}
					}
					out, err := slow.Run(t.Context(), p, RunAsk{Run: "slow"})
					if head := r.ledger().Fold().Head; name == "amended" && kind == Supersede { // the offsets are the same
						if err != nil || out.Status != StatusCommitted || head != 3 {
							t.Errorf("%s, head %d: %v", out.Status, head, err)
						}
						r.sound()
						return
					} else if head != 2 {
						t.Errorf("the head is record %d, want 2, the other driver's", head)
					}
					says := "retired by record 2"
					if name == "amended" {
						says = "other bytes"
					}
					exits(t, err, ExitConflict, says, ".parquet")
					r.sound()
				})
			}
		}
	}
}

// byOldWriter loads two runs of two partitions into two hours, by the writer of an
// older binary.
func byOldWriter(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, 2)
	r.spec.Merge = mergeNever
	for run := range 2 {
		for part := range 2 {
			r.src.log("views", int32(part)).put(t, 10, record.None, lines(view(9, run, "/a"), view(10, run, "/b"))...)
		}
		p, _ := r.plan(PlanAsk{})
		p.Writer.Profile = 1
		if _, err := r.run(p); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestRewriteUnpublished plans a rewrite of files that are committed and still in
// their stage: they are published before they are read.
func TestRewriteUnpublished(t *testing.T) {
	r := byOldWriter(t)
	before := r.content("path", "_partition", "_offset")
	for _, v := range r.ledger().Fold().VisibleOf(1) {
		if err := r.d.Sink.Rename(v.Path, v.Stage); err != nil {
			t.Fatal(err)
		}
	}
	for key, h := range r.ledger().Fold().Hours {
		for _, dir := range h.Dirs {
			if err := r.d.Sink.Remove(ManifestPath(dir)); err != nil {
				t.Fatalf("%s: %v", HourText(key), err)
			}
		}
	}
	if out := r.rewrite(RewriteAsk{}); out.Status != StatusCommitted || out.Files != 2 {
		t.Errorf("%+v", out)
	}
	if after := r.content("path", "_partition", "_offset"); !slices.Equal(after, before) {
		t.Errorf("rows %v, were %v", after, before)
	}
	r.sound()
}

// TestRerunAmendedMeanwhile has another process amend a run while its files are
// made again: they differ by the writer, not by the log.
func TestRerunAmendedMeanwhile(t *testing.T) {
	src, s := &source{}, memSink()
	l := src.open(t, s)
	p := fakePlan(l.Fold(), span{0, 0, 40})
	p.Writer.Profile = 1
	src.mustRun(t, l, p, "run-1")
	c := src.config(s)
	c.Fault = func(point FaultPoint) error {
		if point != BeforeRestore {
			return nil
		}
		_, err := src.open(t, s).Amend(t.Context(), "0", "amend", CommitOptions{})
		return err
	}
	slow, err := OpenLedger(t.Context(), s, "views", "views-hourly", c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = slow.Rerun(t.Context(), "0")
	exits(t, err, ExitConflict, "run-1", "amended")
	if report, err := src.open(t, s).Rerun(t.Context(), "0"); err != nil || report.Changed > 0 || report.Identical == 0 {
		t.Errorf("rerun %+v, %v", report, err)
	}
	sound(t, src.open(t, s))
}
