//go:build linux

package chaos

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"sawlog/broker/compat/peer"
)

var cutsFlag = flag.Int("cuts", 3, "how many power cuts TestPowerLoss makes of each kind")

// outlet is what loses power at a time, and what that may cost.
type outlet struct {
	name    string
	least   int // min.insync.replicas of three
	configs map[string]string
	nodes   int           // that lose power together
	window  time.Duration // what was acknowledged so shortly before may be lost
}

var outlets = []outlet{
	{"one node", 2, nil, 1, 0},
	{"all but one of min.insync.replicas", 3, nil, 2, 0},
	{"all nodes, flush.ms=1000", 2, map[string]string{"flush.ms": "1000"}, 3, time.Second},
	{"all nodes, flush.messages=1", 2, map[string]string{"flush.messages": "1"}, 3, 0},
}

// Power is lost while producers write: the page cache is gone and the machine
// has booted anew. What was acknowledged is there, but for the window a setting
// allows.
func TestPowerLoss(t *testing.T) {
	for _, o := range outlets {
		t.Run(strings.ReplaceAll(o.name, " ", "-"), func(t *testing.T) { powerLoss(t, o) })
	}
}

func powerLoss(t *testing.T, o outlet) {
	dir := room(t, "power-"+strings.NewReplacer(" ", "-", ".", "-", ",", "", "=", "-").Replace(o.name))
	size := *nodesFlag
	if size == 0 {
		size = 3
	}
	c, err := openCluster(t, dir, shape{size: size, volumes: true})
	if err != nil {
		t.Fatal(err)
	}
	if !c.volumes {
		peer.Lacks(t, strings.Join(c.notes, ", "))
	}
	configs := map[string]string{"min.insync.replicas": fmt.Sprint(min(o.least, size))}
	maps.Copy(configs, o.configs)
	parts := map[string]int{events: eventsPartitions}
	if err := c.createTopic(events, eventsPartitions, min(3, size), configs); err != nil {
		t.Fatal(err)
	}
	settle := func() {
		t.Helper()
		if err := await(patience, func() error { return c.healed(events) }); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	h := newHistory()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	// Producers that never try again: what they were told is all they know.
	for p := range eventsPartitions {
		wg.Go(func() { probe(ctx, h, c.seeds(), place{events, int32(p)}) })
	}
	rng := rand.New(rand.NewPCG(1, uint64(o.nodes)))
	var cuts []time.Duration
	for range *cutsFlag {
		time.Sleep(time.Second + time.Duration(rng.Int64N(int64(2*time.Second))))
		first := rng.IntN(size)
		cuts = append(cuts, h.now())
		for i := range min(o.nodes, size) {
			c.nodes[(first+i)%size].kill() // all of them before the first copy
		}
		for i := range min(o.nodes, size) {
			n := c.nodes[(first+i)%size]
			if err := n.powerCut(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range min(o.nodes, size) {
			if err := c.nodes[(first+i)%size].start(); err != nil {
				t.Fatal(err)
			}
		}
		settle()
	}
	cancel()
	wg.Wait()
	if err := readAll(h, c.seeds(), parts); err != nil {
		t.Fatal(err)
	}
	lost, worst := lostBefore(h, cuts)
	did := count(h)
	t.Logf("%s: %d cuts, %d sent, %d acknowledged, %d lost, the oldest %s before its cut", o.name, len(cuts), did.Sent, did.Acked, lost, worst)
	if o.window == 0 && lost > 0 || worst > o.window {
		t.Errorf("%d lost, the oldest %s before its cut; %s is allowed", lost, worst, o.window)
	}
	for _, v := range check(h) {
		if o.window > 0 && (v.Check == "acknowledged lost" || v.Check == "offset inconsistent") {
			continue // counted above, and what is lost frees its offset
		}
		t.Errorf("%s: %s", v.Check, v.What)
	}
}

// lostBefore counts acknowledged records that are gone, and says how long before
// the next cut the oldest was acknowledged.
func lostBefore(h *history, cuts []time.Duration) (lost int, worst time.Duration) {
	there := inLog(h)
	for _, s := range h.Sent {
		if s.Verdict != acked || h.Keyed[s.Topic] || len(there[s.id(s.Topic)]) > 0 {
			continue
		}
		lost++
		for _, cut := range cuts {
			// The answer may have been read after its node had died.
			if cut+time.Second > s.To {
				worst = max(worst, cut-s.To)
				break
			}
		}
	}
	return lost, worst
}

// What is lost is counted, with its age at the cut.
func TestLossIsCounted(t *testing.T) {
	h := sound()
	p := place{"events", 0}
	cuts := []time.Duration{3 * time.Second, 10 * time.Second}
	if lost, _ := lostBefore(h, cuts); lost != 0 {
		t.Errorf("%d lost of a sound history", lost)
	}
	h.Log[p] = append(h.Log[p][:1:1], h.Log[p][3:]...) // acknowledged at 1.5 s and 2.5 s
	if lost, worst := lostBefore(h, cuts); lost != 2 || worst != 1500*time.Millisecond {
		t.Errorf("%d lost, the oldest %s before its cut", lost, worst)
	}
}
