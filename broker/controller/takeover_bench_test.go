package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// BenchmarkTakeover measures, on real disks and by the real clock, how long
// nobody can change metadata when the active controller's process ends, or when
// it falls silent: from then on until another node has confirmed a change.
func BenchmarkTakeover(b *testing.B) {
	for _, silent := range []bool{false, true} {
		b.Run(map[bool]string{false: "ended", true: "silent"}[silent], func(b *testing.B) {
			net := newNetwork()
			nodes := make([]*member, 3)
			for i := range nodes {
				n := newMember(b, net, offsets.BrokerID(i+1))
				n.change = func(c *Config) { c.FS, c.Dir = vfs.OS, n.folder }
				n.folder = b.TempDir()
				if i > 0 {
					n.join = []string{nodes[0].addr}
				}
				n.start()
				nodes[i] = n
			}
			defer stopAll(nodes)
			nodes[0].voters(3)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				old := leaderOf(b, nodes)
				began := time.Now()
				if silent {
					net.isolate(old.addr)
				} else {
					net.kill(old.addr)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				if _, err := others(nodes, old)[0].CreateTopic(ctx, NewTopic{Name: fmt.Sprint("t", i), Partitions: 1, ReplicationFactor: 1}); err != nil {
					b.Fatal(err)
				}
				cancel()
				took = append(took, time.Since(began))
				b.StopTimer()
				if silent {
					net.heal(old.addr)
				} else {
					_ = old.peers.Close()
					old.quiet()
					_ = old.Controller.Close()
					old.start()
				}
				nodes[0].inService(1, 2, 3)
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
			b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "max-ms")
		})
	}
}
