package broker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/offsets"
)

func TestSessionEpochs(t *testing.T) {
	s := newSession(false)
	if s.epoch != 1 {
		t.Errorf("the first incremental epoch is %d", s.epoch)
	}
	for _, tc := range []struct {
		epoch int32
		byID  bool
		want  int16
	}{
		{1, false, 0},
		{0, false, kerr.InvalidFetchSessionEpoch.Code},
		{2, false, kerr.InvalidFetchSessionEpoch.Code},
		{-5, false, kerr.InvalidFetchSessionEpoch.Code},
		{1, true, kerr.FetchSessionTopicIDError.Code},
		{2, true, kerr.InvalidFetchSessionEpoch.Code}, // the epoch is judged first
	} {
		if got := s.admit(tc.epoch, tc.byID); got != tc.want {
			t.Errorf("epoch %d, by id %v: code %d, want %d", tc.epoch, tc.byID, got, tc.want)
		}
	}
	s.begin(7, 0)
	if s.admit(1, false) == 0 || s.admit(2, false) != 0 {
		t.Errorf("after the first request: epoch %d", s.epoch)
	}
	s.epoch = math.MaxInt32
	if s.begin(7, 0); s.epoch != 1 {
		t.Errorf("after the last epoch comes %d", s.epoch)
	}
}

func TestSessionTellsWhatChanged(t *testing.T) {
	s := newSession(false)
	p := s.put(s.topic(offsets.TopicID{}, []byte("t")), sessionAsk{index: 3})
	at := func(high, stable, start offsets.Offset) sessionFind {
		return sessionFind{sessionTold: sessionTold{high, stable, start}}
	}
	if !p.news(at(5, 5, 0)) {
		t.Error("a new partition is no news")
	}
	p.sent(at(5, 5, 0))
	for _, tc := range []struct {
		name string
		find sessionFind
		want bool
	}{
		{"nothing", at(5, 5, 0), false},
		{"high watermark", at(6, 5, 0), true},
		{"last stable offset", at(5, 4, 0), true},
		{"log start", at(5, 5, 1), true},
		{"records", sessionFind{sessionTold: sessionTold{5, 5, 0}, bytes: 1}, true},
		{"an error", sessionFind{sessionTold: sessionTold{5, 5, 0}, code: 3}, true},
		{"a diverging epoch", sessionFind{sessionTold: sessionTold{5, 5, 0}, diverging: true}, true},
		{"records it has no room for", sessionFind{sessionTold: sessionTold{5, 5, 0}, rest: true}, false},
	} {
		if got := p.news(tc.find); got != tc.want {
			t.Errorf("%s: news is %v", tc.name, got)
		}
		if p.told != (sessionTold{5, 5, 0}) {
			t.Fatalf("%s: looking changed what was told", tc.name)
		}
	}
	// Once an error is over, there is something to tell, though the numbers are
	// those told before it.
	failed := at(5, 5, 0)
	failed.code = kerr.OffsetOutOfRange.Code
	p.sent(failed)
	if !p.news(at(5, 5, 0)) {
		t.Error("the end of an error is no news")
	}
}

func TestSessionPartsRestUntilWoken(t *testing.T) {
	s := newSession(false)
	topic := s.topic(offsets.TopicID{}, []byte("t"))
	var parts []*sessionPart
	for i := range int32(4) {
		parts = append(parts, s.put(topic, sessionAsk{index: i}))
	}
	order := func() (got string) {
		for _, p := range s.ordered() {
			got += fmt.Sprint(p.index)
		}
		return got
	}
	none := sessionFind{sessionTold: sessionTold{1, 1, 1}}
	full, rest := none, none
	full.bytes, rest.rest = 10, true
	if order() != "0123" {
		t.Fatalf("new parts: %s", order())
	}
	for i, f := range []sessionFind{none, full, none, rest} {
		parts[i].sent(f)
		if f.bytes > 0 {
			s.served(parts[i])
		}
		parts[i].settle(f)
	}
	if order() != "31" { // served goes behind those that wait
		t.Errorf("after an answer: %s", order())
	}
	s.wake(parts[2])
	s.wake(parts[2])
	if order() != "231" {
		t.Errorf("woken: %s", order())
	}
	if s.forget(offsets.TopicID{}, []byte("t"), 2) != parts[2] || s.forget(offsets.TopicID{}, []byte("t"), 2) != nil {
		t.Error("forget")
	}
	s.wake(parts[2]) // an event that was under way
	if order() != "31" {
		t.Errorf("forgotten, yet served: %s", order())
	}
	again := s.put(topic, sessionAsk{index: 2})
	if again == parts[2] || order() != "312" || again.told.high != -1 {
		t.Errorf("added again: %s, told %+v", order(), again.told)
	}
	s.begin(8, 0)
	if order() != "03"+"12" {
		t.Errorf("another version looks at all: %s", order())
	}
	for i := range int32(4) {
		s.forget(offsets.TopicID{}, []byte("t"), i)
	}
	if s.bytes != 0 || len(s.topics) != 0 || len(s.parts) != 0 || order() != "" {
		t.Errorf("an empty session holds %d bytes, %d topics, %d parts", s.bytes, len(s.topics), len(s.parts))
	}
}

// Under small answers every part with records comes to its turn.
func TestSessionStarvesNobody(t *testing.T) {
	s := newSession(true)
	const n = 7
	topic := s.topic(offsets.TopicID{1}, nil)
	for i := range int32(n) {
		s.put(topic, sessionAsk{index: i})
	}
	served := map[int32]int{}
	for range 10 * n {
		for i, p := range s.ordered() {
			f := sessionFind{sessionTold: sessionTold{9, 9, 0}, rest: true}
			if i == 0 { // only one fits
				f.bytes = 100
				served[p.index]++
				s.served(p)
			}
			p.sent(f)
			p.settle(f)
		}
	}
	for i := range int32(n) {
		if served[i] != 10 {
			t.Errorf("part %d was served %d times of 10", i, served[i])
		}
	}
}

func TestSessionCache(t *testing.T) {
	const idle = 120_000
	c := newSessionCache(2, idle, 1000)
	next := int32(0)
	ids := func() int32 { next++; return next }
	open := func(now int64, parts int, bytes int64) (*sessionSlot, int) {
		s := &fetchSession{}
		slot, evicted := c.open(s, parts, bytes, now, ids)
		return slot, len(evicted)
	}
	a, _ := open(0, 5, 100)
	b, _ := open(1, 9, 100)
	if a == nil || b == nil {
		t.Fatal("no room in an empty cache")
	}
	if got, n := open(10, 100, 100); got != nil || n != 0 {
		t.Error("a young session was evicted for a larger one")
	}
	// Both have lived for longer than idle, and are used.
	c.touch(a, 5, 100, idle+2)
	c.touch(b, 9, 100, idle+2)
	if got, n := open(idle+3, 5, 100); got != nil || n != 0 {
		t.Error("one as large was evicted")
	}
	if got, n := open(idle+3, 6, 100); got == nil || n != 1 || c.byID[a.id] != nil {
		t.Error("the smallest didn't give way to a larger one")
	}
	// Unused for longer than idle gives way to any.
	if got, n := open(2*idle+3, 1, 100); got == nil || n != 1 || c.byID[b.id] != nil {
		t.Error("a stale one stays")
	}
	if c.held != 200 || len(c.byID) != 2 {
		t.Errorf("%d bytes in %d sessions", c.held, len(c.byID))
	}
	if got, _ := open(9*idle, 1, 1001); got != nil || len(c.byID) != 2 {
		t.Error("a session larger than all memory")
	}
	if got, n := open(9*idle, 1, 950); got == nil || n != 2 || c.held != 950 {
		t.Errorf("memory: evicted %d, holds %d", n, c.held)
	} else if c.touch(got, 1, 1001, 9*idle) || c.held != 0 || len(c.byID) != 0 {
		t.Error("a session outgrew the memory")
	}
	if c.remove(99) != nil || c.find(99) != nil {
		t.Error("an id that never was")
	}
}

// TestSessionCacheModel holds the cache against the rules said in full.
func TestSessionCacheModel(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		const slots, idle = 4, 50
		c := newSessionCache(slots, idle, math.MaxInt64)
		model := map[int32]*sessionSlot{}
		now := int64(0)
		for step := range 400 {
			now += rnd.Int64N(25)
			switch rnd.IntN(3) {
			case 0:
				parts := rnd.IntN(10)
				var gives []int32 // ids that the rules allow to give way
				for id, s := range model {
					stale, lived := false, true
					for _, o := range model {
						stale = stale || now-o.used > idle
						lived = lived && (s.used <= o.used)
					}
					switch {
					case stale && lived:
						gives = append(gives, id)
					case !stale && s.used-s.created > idle && s.parts < parts:
						smallest := true
						for _, o := range model {
							smallest = smallest && (o.used-o.created <= idle || s.parts <= o.parts)
						}
						if smallest {
							gives = append(gives, id)
						}
					}
				}
				got, evicted := c.open(&fetchSession{}, parts, 1, now, func() int32 { return 1 + rnd.Int32N(20) })
				switch full := len(model) == slots; {
				case !full && (got == nil || len(evicted) > 0):
					t.Fatalf("seed %d step %d: refused with room", seed, step)
				case full && (got != nil) != (len(gives) > 0):
					t.Fatalf("seed %d step %d: opened %v, may give way %v", seed, step, got != nil, gives)
				case full && got != nil:
					gone := int32(0)
					for _, id := range gives {
						if model[id].session == evicted[0] {
							gone = id
						}
					}
					if gone == 0 {
						t.Fatalf("seed %d step %d: evicted one that isn't of %v", seed, step, gives)
					}
					delete(model, gone)
				}
				if got != nil {
					if model[got.id] != nil {
						t.Fatalf("seed %d step %d: id %d twice", seed, step, got.id)
					}
					model[got.id] = got
				}
			case 1:
				for _, s := range model {
					if rnd.IntN(2) == 0 {
						c.touch(s, rnd.IntN(10), 1, now)
					}
				}
			case 2:
				for id := range model {
					if rnd.IntN(8) == 0 {
						c.remove(id)
						delete(model, id)
					}
				}
			}
			if int(c.held) != len(model) || len(c.byID) != len(model) {
				t.Fatalf("seed %d step %d: holds %d in %d, want %d", seed, step, c.held, len(c.byID), len(model))
			}
		}
	}
}
