package consumer_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"sawlog/broker/brokertest"
	"sawlog/consumer"
)

// TestLink: a cluster that can't be reached is tried again, nobody waits longer
// than he may, and all share one connection.
func TestLink(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Close() }()
	l := consumer.NewLink(consumer.Config{Brokers: []string{deaf.Addr().String()}, Timeout: 10 * time.Second})
	var wg sync.WaitGroup
	began := time.Now()
	for range 3 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := l.Cluster(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a cluster that does not answer: %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("they waited %v for each other", took)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}

	b := brokertest.Start(t, nil)
	l = consumer.NewLink(consumer.Config{Brokers: []string{b.Addr()}})
	first, err := l.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := l.Cluster(t.Context()); err != nil || second != first {
		t.Errorf("asked again: %v %v, want the connection of before", second, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
