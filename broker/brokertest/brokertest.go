// Package brokertest starts brokers inside a test, on loopback or with an
// in-memory network and disk.
package brokertest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"syscall"
	"testing"
	"time"

	"sawlog/broker"
)

// Start runs a broker on a free loopback port, over a directory of the test's,
// until the test ends. New groups don't wait for more members there. change,
// when not nil, may alter the config.
func Start(t testing.TB, change func(*broker.Config)) *broker.Broker {
	t.Helper()
	c := broker.Config{
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&c)
	}
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	const delay = "group.initial.rebalance.delay.ms"
	if _, ok := c.Defaults[delay]; !ok {
		c.Defaults = maps.Clone(c.Defaults)
		if c.Defaults == nil {
			c.Defaults = map[string]string{}
		}
		c.Defaults[delay] = "0"
	}
	b, err := open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, b) })
	return b
}

// open opens a broker, also where one has just been closed at its address: a
// process that another test is starting holds copies of all sockets until it has
// become another program.
func open(ctx context.Context, c broker.Config) (*broker.Broker, error) {
	for late := time.Now().Add(10 * time.Second); ; {
		b, err := broker.Open(ctx, c)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(late) {
			return b, err
		}
		time.Sleep(time.Millisecond) // another process acts
	}
}

// Stop closes a broker and fails the test if that isn't clean.
func Stop(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// testWriter sends a logger's lines to the test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(string(line))
	return len(line), nil
}
