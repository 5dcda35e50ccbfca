package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestProofBallast fills the disk of a broker that has kept some of it back:
// clients are refused, but groups commit, topics are made, it stops and starts;
// and it goes on once there is room.
func TestProofBallast(t *testing.T) {
	n, small := nodeOn(t, "160m")
	n.lines("disk", 100)
	ballast := filepath.Join(small, "ballast")
	if _, err := os.Stat(ballast); err != nil {
		t.Fatalf("no ballast: %v", err)
	}
	rest := filepath.Join(small, "rest")
	fill(t, rest, 64<<10)
	big := make([]byte, 500<<10)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	send := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		c := n.client(kgo.RecordRetries(2), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordDeliveryTimeout(3*time.Second))
		return c.ProduceSync(ctx, &kgo.Record{Topic: "disk", Value: big}).FirstErr()
	}
	if err := send(); err == nil {
		t.Fatal("a record larger than the disk was acknowledged")
	}
	if _, err := os.Stat(ballast); err == nil {
		t.Fatal("the ballast was kept on a full disk")
	}
	if err := send(); err == nil {
		t.Fatal("the ballast's room went to a client")
	}
	n.run("consume", "disk", "-g", "readers", "-n", "40")
	n.run("topic", "create", "more", "--partitions", "3")
	n.stop()
	n.start()
	n.run("group", "describe", "readers")
	n.run("topic", "describe", "more")
	n.roomAgain(rest, big)
	if _, err := os.Stat(ballast); err != nil {
		t.Errorf("the ballast is not back: %v", err)
	}
}
