package compat

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// limit is how long an answer may take; the slowest is a group's first
// generation, three seconds by default.
const limit = 60 * time.Second

// TestDiffer asks Apache Kafka and Sawlog the same, from the same state, and
// holds the answers against each other field by field. With
// SAWLOG_DIFFER_SHOW=1 it logs every answer of Kafka's.
func TestDiffer(t *testing.T) {
	all := scripts(t, "testdata/differ")
	d := &differ{
		known:   readExceptions(t, "testdata/differ/exceptions.txt"),
		start:   time.Now(),
		show:    os.Getenv("SAWLOG_DIFFER_SHOW") != "",
		reached: map[pair]bool{}, absent: map[string]bool{},
	}
	d.servers = [2]*peer.Server{peer.Kafka(t, peer.Options{}), peer.Sawlog(t, peer.Options{})}
	t.Logf("both brokers run after %.1f s", time.Since(d.start).Seconds())
	d.readVersions(t)
	ran := 0
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range all {
			if s.alone {
				t.Run(s.name, func(t *testing.T) { ran++; d.play(t, s) })
			}
		}
		// They mostly wait; t.Parallel would run as many as there are cores.
		var group sync.WaitGroup
		slots := make(chan struct{}, 6)
		var mu sync.Mutex
		for _, s := range all {
			if s.alone {
				continue
			}
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(s.name, func(t *testing.T) {
					mu.Lock()
					ran++
					mu.Unlock()
					d.play(t, s)
				})
			})
		}
		group.Wait()
	})
	d.summary(t, ran == len(all))
}

type pair struct{ key, version int16 }

// differ is one run against both brokers.
type differ struct {
	servers [2]*peer.Server // Kafka, Sawlog
	start   time.Time
	show    bool
	known   *exceptions
	served  map[int16]kmsg.ApiVersionsResponseApiKey // by Sawlog

	requests, fields, excused, again atomic.Int64

	mu      sync.Mutex
	reached map[pair]bool
	absent  map[string]bool // asked for in a scenario, not served by Sawlog
}

// readVersions reads the version table of Sawlog.
func (d *differ) readVersions(t *testing.T) {
	t.Helper()
	conn, err := peer.Dial(t.Context(), d.servers[1].Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // only read from
	resp, err := conn.Ask(kmsg.NewPtrApiVersionsRequest(), limit)
	if err != nil {
		t.Fatal(err)
	}
	d.served = map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		d.served[k.ApiKey] = k
	}
}

// serves tells whether Sawlog advertises a request; what it does not is left
// out of scenarios, but for those in which the refusal is the point.
func (d *differ) serves(scenario string, key, version int16) bool {
	k, ok := d.served[key]
	if ok && version >= k.MinVersion && version <= k.MaxVersion || scenario == "unknown" {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.absent[kmsg.NameForKey(key)] = true
	return false
}

// summary prints the count, and fails for a request nobody asked and for an
// exception nobody needs.
func (d *differ) summary(t *testing.T, whole bool) {
	t.Helper()
	keys := map[int16]bool{}
	for p := range d.reached {
		keys[p.key] = true
	}
	t.Logf("compared: %d keys, %d (key, version) pairs, %d requests, %d fields; %d fields excused by %d exceptions; %d reads asked again; %.0f s",
		len(keys), len(d.reached), d.requests.Load(), d.fields.Load(), d.excused.Load(), len(d.known.rows), d.again.Load(), time.Since(d.start).Seconds())
	if len(d.absent) > 0 {
		t.Logf("in scenarios, but not served: %s", strings.Join(slices.Sorted(maps.Keys(d.absent)), " "))
	}
	if !whole {
		t.Log("not all scenarios ran: neither coverage nor exceptions were checked")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(d.served)) {
		k := d.served[key]
		var never []int16
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			if !d.reached[pair{key, v}] {
				never = append(never, v)
			}
		}
		if never != nil {
			t.Errorf("%s is served at versions %d, which are in no scenario", kmsg.NameForKey(key), never)
		}
	}
	for _, e := range d.known.rows {
		if !e.used {
			t.Errorf("exceptions.txt:%d: nothing differs at %s | %s | %s", e.line, e.scenario, e.api, e.path)
		}
	}
}
