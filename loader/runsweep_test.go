package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/formats"
	"sawlog/loader/sink"
)

// TestRunsSweepNowAndThen has runs leave stages behind, and every 24th record
// take all of them away.
func TestRunsSweepNowAndThen(t *testing.T) {
	r := newRig(t, 1)
	for n := range sweepEvery + 1 {
		value := fmt.Sprintf(`{"ts":"2026-11-29T14:%02d:00Z","n":%d}`, n, n)
		r.src.log("views", 0).put(t, 1, record.None, record.Record{Timestamp: -1, Value: []byte(value)})
		if out := r.load(PlanAsk{}); out.Rows != 1 {
			t.Fatalf("run %d: %d rows", n, out.Rows)
		}
		stages, err := r.d.Sink.List(StagesDir)
		if err != nil {
			t.Fatal(err)
		}
		if want := n % sweepEvery; len(stages) != want {
			t.Fatalf("after record %d %d stages are left, want %d", n, len(stages), want)
		}
	}
}

// TestSweepTakesOldPuts leaves what a crash leaves of a put, a day old and new,
// beside records, plans and files on their way.
func TestSweepTakesOldPuts(t *testing.T) {
	s := memSink()
	src, l := ran(t, s)
	left := []string{LedgerDir + "/" + sink.PutPrefix + "1", PlansDir + "/" + sink.PutPrefix + "2", TempDir + "/3"}
	for _, dir := range left {
		if err := errors.Join(s.MkdirAll(dir), sink.Write(s, dir+"/commit.json", []byte("half"))); err != nil {
			t.Fatal(err)
		}
	}
	c := src.config(s)
	for age, want := range map[time.Duration]int{23 * time.Hour: 0, 25 * time.Hour: len(left)} {
		c.Now = func() time.Time { return time.Now().Add(age) }
		l, err := OpenLedger(t.Context(), s, "", "", c)
		if err != nil {
			t.Fatal(err)
		}
		report, err := l.Sweep(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		old := 0
		for _, name := range report.Removed {
			if slices.Contains(left, name) {
				old++
			}
		}
		if old != want {
			t.Errorf("after %v %d of %v would go, want %d", age, old, left, want)
		}
	}
	sound(t, l)
}

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
// The run is covered; where the other had to revise the plan first it is a
// conflict, since the plan that was committed is another one.
func TestOvertakenWhileWorking(t *testing.T) {
	declared := &formats.Schema{}
	for name, kind := range map[string]formats.Kind{"ts": formats.String, "path": formats.String} {
		declared.Fields = append(declared.Fields, formats.Field{Name: name, Type: &formats.Type{Kind: kind}})
	}
	for name, c := range map[string]struct {
		early  bool
		schema *formats.Schema
		status string
		code   int
	}{
		"before, same plan":    {true, declared, StatusCovered, 0},
		"after, same plan":     {false, declared, StatusCovered, 0},
		"before, revised plan": {true, nil, StatusFailed, ExitConflict},
		"after, revised plan":  {false, nil, StatusFailed, ExitConflict},
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
			if ExitCode(err) != c.code || out.Status != c.status {
				t.Errorf("status %s, exit %d: %v", out.Status, ExitCode(err), err)
			}
			if rows := r.rows("path"); len(rows) != 2 {
				t.Errorf("%d rows", len(rows))
			}
		})
	}
}
