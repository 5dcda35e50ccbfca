package brokertest_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"sawlog/broker"
	"sawlog/broker/brokertest"
)

// alarms keeps what is logged as an error.
type alarms struct {
	slog.Handler
	keep func(what string)
}

func (a alarms) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		a.keep(r.Message)
	}
	return a.Handler.Handle(ctx, r)
}

// TestJoiningIsNoError: a cluster comes up, grows, rolls and lives through a
// death, and nobody says ERROR of what is as it should be.
func TestJoiningIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		c := brokertest.NewCluster(t, 5)
		c.Change = func(config *broker.Config) {
			config.Logger = slog.New(alarms{config.Logger.Handler(), func(what string) {
				mu.Lock()
				said = append(said, what)
				mu.Unlock()
			}})
		}
		c.StartAll()
		c.Nodes[1].Stop()
		c.Nodes[1].Start()
		c.Nodes[2].Kill()
		c.Nodes[2].Start()
		mu.Lock()
		defer mu.Unlock()
		for _, what := range said {
			t.Errorf("an error that is none: %s", what)
		}
	})
}
