package bench

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

const mib = 1 << 20

// memory is what both brokers occupied at some time, in bytes.
type memory struct {
	When       string  `json:"when"`
	SawlogAnon float64 `json:"sawlog_anon"` // without page cache and program text
	KafkaAnon  float64 `json:"kafka_anon"`
	SawlogRSS  float64 `json:"sawlog_rss"`
	KafkaRSS   float64 `json:"kafka_rss"`
	HeapInuse  float64 `json:"heap_inuse"` // of Sawlog
}

// remember notes what both occupy while nothing happens.
func (b *bench) remember(t *testing.T, when string) {
	t.Helper()
	// A profile of the heap may ask for a collection first.
	reply, err := http.Get("http://" + b.sawlog.HTTP + "/debug/pprof/heap?gc=1")
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close() // what it says does not matter
	s, k := b.sawlog.Usage(), b.kafka.Usage()
	b.results.Memory = append(b.results.Memory, memory{
		When: when, SawlogAnon: float64(s.Anon), KafkaAnon: float64(k.Anon),
		SawlogRSS: float64(s.RSS), KafkaRSS: float64(k.RSS), HeapInuse: b.sawlog.heapInuse(t),
	})
}

// catchUp notes the most that either occupied while three consumers read all of
// a topic.
func (b *bench) catchUp(t *testing.T) {
	t.Helper()
	const consumers = 3
	l := load{"replay", 1024, "none", 16, "never"}
	m := memory{When: "peak of 3 consumers catching up"}
	for _, s := range b.order(0) {
		topic := b.topic()
		s.create(t, topic, l.Partitions, l.configs())
		p := produceFrame(t, topic, indexes(l.Partitions), l.Size, l.Codec, time.Now().UnixMilli())
		there := replayProduce(t.Context(), t, s.Addr, p.frame, conns, int64(*volume/p.bytes)) * int64(p.records)
		over, cancel := context.WithCancel(t.Context())
		cancel() // each reads it once
		var wg sync.WaitGroup
		done := make(chan struct{})
		for range consumers {
			wg.Go(func() { kgoFetch(over, t, s.Addr, topic, l.Partitions, there) })
		}
		go func() {
			wg.Wait()
			close(done)
		}()
		for reading := true; reading; {
			select {
			case <-done:
				reading = false
			case <-time.After(20 * time.Millisecond): // another process acts
			}
			u := s.Usage()
			if s == b.sawlog {
				m.SawlogAnon, m.SawlogRSS = max(m.SawlogAnon, float64(u.Anon)), max(m.SawlogRSS, float64(u.RSS))
				m.HeapInuse = max(m.HeapInuse, s.heapInuse(t))
			} else {
				m.KafkaAnon, m.KafkaRSS = max(m.KafkaAnon, float64(u.Anon)), max(m.KafkaRSS, float64(u.RSS))
			}
		}
		s.remove(t, topic)
	}
	b.results.Memory = append(b.results.Memory, m)
}
