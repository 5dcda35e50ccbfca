package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// A change of tens of thousands of partitions takes several entries, and yet not
// longer than a small one: they go through the disks of all nodes together, and
// each node hears of few changes instead of one for each entry.
func TestALargeChangeTakesAsLongAsASmallOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork()
		nodes := make([]*member, 3)
		var told atomic.Int64
		for i := range nodes {
			nodes[i] = newMember(t, net, offsets.BrokerID(i+1))
			if i > 0 {
				nodes[i].join = []string{nodes[0].addr}
			}
			nodes[i].change = func(c *Config) { c.OnChange = func(_, _ *Image) { told.Add(1) } }
			nodes[i].start()
		}
		defer func() { stopAll(nodes) }()
		nodes[0].voters(3)
		leader := leaderOf(t, nodes)
		for i := range 8 {
			create(t, leader.Controller, fmt.Sprint("t", i), 3000)
		}
		for _, n := range nodes {
			n.fs.Inject(func(op vfs.Op, name string) error {
				if op == vfs.OpSync && strings.HasSuffix(name, ".log") {
					time.Sleep(40 * time.Millisecond)
				}
				return nil
			})
		}
		began := time.Now()
		create(t, leader.Controller, "small", 1)
		small := time.Since(began)

		gone := others(nodes, leader)[0]
		gone.quiet() // it doesn't come back
		told.Store(0)
		at := leader.Image().Sequence
		began = time.Now()
		if err := leader.ChangeBroker(t.Context(), BrokerChange{ID: gone.id, Epoch: gone.epoch, Fenced: true}); err != nil {
			t.Fatal(err)
		}
		large := time.Since(began)
		entries := leader.Image().Sequence - at
		if entries < 4 {
			t.Fatalf("it took %d entries, expected more", entries)
		}
		if large > 2*small { // the first may go alone
			t.Errorf("%d entries took %v, one took %v", entries, large, small)
		}
		time.Sleep(time.Second)
		if n := told.Load(); n >= int64(3*entries) {
			t.Errorf("3 nodes heard %d times of %d entries", n, entries)
		}
		for _, n := range nodes {
			if n.Image().Hash() != leader.Image().Hash() {
				t.Errorf("node %d has another image", n.id)
			}
		}
	})
}
