// Package model runs the replication protocol, the real rules of
// broker/replica and broker/controller, as one partition among three to five
// brokers with everything in between lost, late, twice or in disorder, and
// checks after every step that nothing committed is gone.
package model

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	traces = flag.Int("traces", 20000, "random traces to run")
	first  = flag.Uint64("first", 0, "seed of the first trace")
	small  = flag.Bool("shrink", true, "look for the shortest trace that fails")
)

const traceSteps = 200

// run plays a trace and tells the step after which something was wrong.
func run(s setting, steps []step, heal bool, trace func(string, ...any)) (w *world, failed int, err error) {
	w = newWorld(s)
	w.trace = trace
	for i, st := range steps {
		w.do(st)
		if err := w.check(); err != nil {
			return w, i, err
		}
	}
	if heal && !s.ruthless {
		return w, len(steps), w.heal()
	}
	return w, -1, nil
}

func draw(seed uint64) (setting, []step) {
	rnd := rand.New(rand.NewPCG(seed, 77))
	s := drawSetting(rnd)
	weights, total := drawWeights(rnd)
	steps := make([]step, traceSteps)
	for i := range steps {
		steps[i] = drawStep(rnd, weights, total)
	}
	return s, steps
}

// shrink leaves out all steps without which the trace still fails.
func shrink(s setting, steps []step, failed int) []step {
	steps = slices.Clone(steps[:min(failed+1, len(steps))])
	fails := func(steps []step) bool {
		_, _, err := run(s, steps, true, nil)
		return err != nil
	}
	for size := len(steps) / 2; size > 0; size /= 2 {
		for again := true; again; {
			again = false
			for at := 0; at+size <= len(steps); {
				if shorter := slices.Delete(slices.Clone(steps), at, at+size); fails(shorter) {
					steps, again = shorter, true
				} else {
					at++
				}
			}
		}
	}
	return steps
}

// TestRandomTraces is the model's run. A failing seed is printed with the
// shortest trace found; -first N -traces 1 runs it again.
func TestRandomTraces(t *testing.T) {
	n := *traces
	if testing.Short() {
		n /= 10
	}
	var next atomic.Int64
	var mu sync.Mutex
	events := map[string]int{}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			seen := map[string]int{}
			for i := next.Add(1) - 1; i < int64(n) && !t.Failed(); i = next.Add(1) - 1 {
				seed := *first + uint64(i)
				s, steps := draw(seed)
				w, failed, err := run(s, steps, true, nil)
				if err != nil {
					report(t, seed, s, steps, failed, err)
				}
				for k, v := range w.events {
					seen[k] += v
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, v := range seen {
				events[k] += v
			}
		})
	}
	wg.Wait()
	for _, k := range slices.Sorted(maps.Keys(events)) {
		t.Logf("%9d × %s", events[k], k)
	}
}

func report(t *testing.T, seed uint64, s setting, steps []step, failed int, err error) {
	short := steps[:min(failed+1, len(steps))]
	if *small {
		short = shrink(s, steps, failed)
	}
	var text strings.Builder
	_, _, again := run(s, short, true, func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) })
	t.Errorf("seed %d, %+v: %v\nshortest trace, %d steps: %v\n%s", seed, s, err, len(short), again, text.String())
}
