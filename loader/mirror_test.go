package loader

import (
	"fmt"
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
				r.d.Hold = true
				r.src.log("views", 0).put(t, 10, 0, lines(view(9, 0, "/a"), view(9, 1, "/b"))...)
				began := time.Now()
				r.src.refuse = func(req kmsg.Request) error {
					if _, ok := req.(*kmsg.OffsetCommitRequest); ok && time.Since(began) < outage {
						return fmt.Errorf("%w: no coordinator", consumer.ErrUnavailable)
					}
					return nil
				}
				out := r.load(PlanAsk{})
				if out.Status != StatusCommitted || out.Rows != 2 {
					t.Errorf("%+v", out)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("the run waited %s for a coordinator", took)
				}
				if got := r.src.configs["views retention.hold.views-hourly"]; got != "0:2" {
					t.Errorf("held %q", got)
				}
				if got, ok := r.src.groups["sawlog.views-hourly views/0"]; ok != (name == "replaced") || ok && got != 2 {
					t.Errorf("mirrored %d, %t", got, ok)
				}
			})
		})
	}
}
