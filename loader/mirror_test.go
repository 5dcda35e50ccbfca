package loader

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// TestMirrorOutlastsTheCoordinator has the coordinator of the group vanish under
// the end of a run, for as long as Kafka takes to replace one, and for ever: the
// run is committed, what is yet to be loaded is held at once, and the offsets
// others look at are set as soon as somebody takes them.
func TestMirrorOutlastsTheCoordinator(t *testing.T) {
	for name, outage := range map[string]time.Duration{"replaced": 20 * time.Second, "gone": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.spec.Codec = "none" // an encoder made in a bubble is of no use outside
				r.src.log("views", 0).put(t, 10, 0, lines(view(9, 0, "/a"), view(9, 1, "/b"))...)
				began := time.Now()
				r.src.refuse = func(req kmsg.Request) error {
					if _, ok := req.(*kmsg.OffsetCommitRequest); ok && time.Since(began) < outage {
						return fmt.Errorf("%w: no coordinator", consumer.ErrUnavailable)
					}
					return nil
				}
				p, _ := r.plan(PlanAsk{})
				out, err := r.run(p, func(a *RunAsk) { a.Hold = time.Hour })
				if err != nil {
					t.Fatal(err)
				}
				if out.Status != StatusCommitted || out.Rows != 2 {
					t.Errorf("%+v", out)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("the run waited %s for a coordinator", took)
				}
				if got := r.src.configs["views retention.hold.views-hourly"]; got != "0:2,max.ms:3600000" {
					t.Errorf("held %q", got)
				}
				if got, ok := r.src.groups["sawlog.views-hourly views/0"]; ok != (name == "replaced") || ok && got != 2 {
					t.Errorf("mirrored %d, %t", got, ok)
				}
			})
		})
	}
}

// TestMirrorOfTheNextRun has runs end between their marks and the mirror: the next
// one sets the offsets, also where it finds nothing left to load.
func TestMirrorOfTheNextRun(t *testing.T) {
	for name, again := range map[string]func(r *rig, p *Plan) *Plan{
		"the same plan":   func(_ *rig, p *Plan) *Plan { return p },
		"nothing is left": func(r *rig, _ *Plan) *Plan { next, _ := r.plan(PlanAsk{}); return next },
		"others are loaded": func(r *rig, _ *Plan) *Plan {
			r.src.log("views", 1).put(t, 10, 0, lines(view(9, 2, "/c"))...)
			next, _ := r.plan(PlanAsk{})
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2)
			r.src.log("views", 0).put(t, 10, 0, lines(view(9, 0, "/a"), view(9, 1, "/b"))...)
			r.src.refuse = func(req kmsg.Request) error {
				if _, ok := req.(*kmsg.OffsetCommitRequest); ok {
					return errors.New("the driver ended")
				}
				return nil
			}
			p, _ := r.plan(PlanAsk{})
			if out, err := r.run(p); err != nil || out.Status != StatusCommitted {
				t.Fatalf("%+v, %v", out, err)
			}
			if got, ok := r.src.groups["sawlog.views-hourly views/0"]; ok {
				t.Fatalf("mirrored %d already", got)
			}
			r.src.refuse = nil
			if _, err := r.run(again(r, p), func(a *RunAsk) { a.Hold = time.Hour }); err != nil {
				t.Fatal(err)
			}
			if got, ok := r.src.groups["sawlog.views-hourly views/0"]; !ok || got != 2 {
				t.Errorf("mirrored %d, %t", got, ok)
			}
			if r.src.configs["views retention.hold.views-hourly"] == "" {
				t.Error("nothing is held")
			}
		})
	}
}

// TestHoldFromTheStart holds where a first run starts, and a partition that was
// added, before their records are read; a run that fails leaves it so.
func TestHoldFromTheStart(t *testing.T) {
	r := newRig(t, 2)
	r.src.log("views", 0).put(t, 10, 0, lines(view(9, 0, "/a"))...)
	held := func() string {
		r.src.mu.Lock()
		defer r.src.mu.Unlock()
		return r.src.configs["views retention.hold.views-hourly"]
	}
	var seen string
	r.d.Observe = func(e Event) {
		if e.Task != nil && seen == "" {
			seen = held()
		}
	}
	load := func(hold time.Duration) {
		t.Helper()
		p, _ := r.plan(PlanAsk{})
		seen = ""
		if _, err := r.run(p, func(a *RunAsk) { a.Hold = hold }); err != nil {
			t.Fatal(err)
		}
	}
	load(time.Hour)
	if seen != "0:0,1:0,max.ms:3600000" || held() != "0:1,1:0,max.ms:3600000" {
		t.Errorf("held %q while it ran, then %q", seen, held())
	}
	r.src.log("views", 0).put(t, 10, 0, lines(view(9, 1, "/b"))...)
	load(0)
	if seen != "0:1,1:0,max.ms:3600000" || held() != seen {
		t.Errorf("a run that holds nothing: %q, then %q", seen, held())
	}
}

// TestHoldIsRefused: a source that knows no holds is loaded from all the same.
func TestHoldIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.src.log("views", 0).put(t, 10, 0, lines(view(9, 0, "/a"))...)
	var said strings.Builder
	r.d.Logger = slog.New(slog.NewTextHandler(&said, nil))
	r.src.refuse = func(req kmsg.Request) error {
		if _, ok := req.(*kmsg.IncrementalAlterConfigsRequest); ok {
			return fmt.Errorf("topic views: %w", consumer.ErrNoHold)
		}
		return nil
	}
	p, _ := r.plan(PlanAsk{})
	out, err := r.run(p, func(a *RunAsk) { a.Hold = time.Hour })
	if err != nil || out.Rows != 1 || !strings.Contains(said.String(), "keeps nothing for jobs") {
		t.Errorf("%+v, %v\n%s", out, err, said.String())
	}
}
