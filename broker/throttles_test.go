package broker

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/replica"
)

// TestThrottledMove: a replica that catches up is held to the rate, be it the
// leader's or its own; partitions beside it, and those that are in sync, are not,
// and without a limit it is a matter of no time.
func TestThrottledMove(t *testing.T) {
	const rate, records, size = 500_000, 100, 50_000 // ten seconds
	for name, c := range map[string]struct {
		slow     topicConfig
		rate     func(h *house) *replica.Throttle
		from, to time.Duration
	}{
		"leader":       {topicConfig{slowLeading: parseThrottled("0:1")}, func(h *house) *replica.Throttle { return &h.rooms[1].throttles.leading }, 8 * time.Second, 12 * time.Second},
		"follower":     {topicConfig{slowFollowing: parseThrottled("0:2")}, func(h *house) *replica.Throttle { return &h.rooms[2].throttles.following }, 8 * time.Second, 12 * time.Second},
		"all":          {topicConfig{slowLeading: parseThrottled("*")}, func(h *house) *replica.Throttle { return &h.rooms[1].throttles.leading }, 8 * time.Second, 13 * time.Second},
		"another rate": {topicConfig{slowLeading: parseThrottled("*")}, func(h *house) *replica.Throttle { return &h.rooms[2].throttles.leading }, 0, time.Second},
		"not listed":   {topicConfig{slowLeading: parseThrottled("0:2,1:1")}, func(h *house) *replica.Throttle { return &h.rooms[1].throttles.leading }, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2, 1, 2)
				h.minISR, h.slow = 1, c.slow
				for i := range int32(2) {
					h.lead(i, 1, 1, 2)
					h.put(1, i, "first")
				}
				h.mu.Lock()
				h.cut[2] = true
				h.mu.Unlock()
				h.lead(0, 1, 1)
				for i := range records {
					h.put(1, 0, fmt.Sprint(i)+strings.Repeat("x", size))
				}
				c.rate(h).SetRate(rate)
				h.mu.Lock()
				h.cut[2] = false
				h.mu.Unlock()
				h.tell(2)
				began := time.Now()
				for len(h.isr()) < 2 {
					asked := time.Now()
					h.put(1, 1, "beside")
					if took := time.Since(asked); took > 100*time.Millisecond && time.Since(began) > time.Second {
						t.Fatalf("a record of a partition in sync took %v", took)
					}
					time.Sleep(10 * time.Millisecond)
					if time.Since(began) > time.Minute {
						t.Fatal("not in sync after a minute")
					}
				}
				if took := time.Since(began); took < c.from || took > c.to {
					t.Errorf("%d bytes at %d bytes a second took %v, not %v to %v", records*size, rate, took, c.from, c.to)
				}
				asked := time.Now()
				for i := range records {
					h.put(1, 0, fmt.Sprint(i)+strings.Repeat("x", size))
				}
				if took := time.Since(asked); took > time.Second {
					t.Errorf("in sync, the same again took %v", took)
				}
			})
		})
	}
}

// TestThrottleRates: a broker's own rate counts more than all brokers', and none
// is no limit; lists are read as Kafka's tools write them.
func TestThrottleRates(t *testing.T) {
	for list, want := range map[string]bool{"*": true, "3:7": true, "1:2, 3:7": true, "": false, "7:3": false, "3:8": false} {
		if got := parseThrottled(list).lists(3, 7); got != want {
			t.Errorf("%q lists replica 7 of partition 3: %v", list, got)
		}
	}
	for _, c := range []struct {
		all, own map[string]string
		want     int64
	}{
		{nil, nil, math.MaxInt64},
		{map[string]string{leaderRateKey: "5"}, nil, 5},
		{map[string]string{leaderRateKey: "5"}, map[string]string{leaderRateKey: " 6"}, 6},
	} {
		if got := dynamicNumber(c.own, c.all, leaderRateKey, math.MaxInt64); got != c.want {
			t.Errorf("%v, %v: %d, not %d", c.all, c.own, got, c.want)
		}
	}
}

// TestLagSetting: how long a follower that nothing is heard of stays in sync is a
// setting of the start.
func TestLagSetting(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  time.Duration
	}{{nil, 30 * time.Second}, {map[string]string{"replica.lag.time.max.ms": "2000"}, 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, 1, 1, 2)
			h.minISR = 1
			b := h.rooms[1]
			b.keeper.Close()
			b.keeper = replica.NewKeeper(replica.KeeperConfig{
				ChangeISRs: h.changeISRs(1), Usable: h.usable, Led: b.replicas, LagMax: (&Config{Defaults: c.given}).lagMax(),
			})
			b.keeper.Start()
			h.lead(0, 1, 1, 2)
			h.put(1, 0, "first")
			h.isolate(2)
			began := time.Now()
			if _, err := h.append(1, 0, "second"); err != nil {
				t.Fatal(err)
			}
			for len(h.isr()) == 2 && time.Since(began) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took < c.want-time.Second || took > c.want+time.Second {
				t.Errorf("%v: it is out of sync after %v", c.given, took)
			}
		})
	}
}
