package brokertest_test

import (
	"os/exec"
	"sync"
	"testing"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/compat/peer"
)

// TestStartsAgain: a broker is started at the address of the one that was closed,
// while processes are started beside it.
func TestStartsAgain(t *testing.T) {
	addr, dir := peer.Address(t), t.TempDir()
	done := make(chan struct{})
	var starting sync.WaitGroup
	for range 2 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.Command("true").Run() // that it starts is all
				}
			}
		})
	}
	for range 15 {
		b := brokertest.Start(t, func(c *broker.Config) { c.Dir, c.Listen = dir, addr })
		brokertest.Stop(t, b)
	}
	close(done)
	starting.Wait()
}
