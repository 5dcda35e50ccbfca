package consumer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// TestReaderTopicMadeAgain: that a topic is another one, or gone, is believed at once
// where all brokers say so, soon where most do, and else only after a while: the one
// that was asked may be behind the others.
func TestReaderTopicMadeAgain(t *testing.T) {
	planned, other, none := offsets.TopicID{1, 2, 3}, offsets.TopicID{9}, offsets.TopicID{}
	for name, c := range map[string]struct {
		says  map[int32]offsets.TopicID // by broker; 1 is asked first
		down  []int32
		after time.Duration // -1 = what was planned is read
	}{
		"one broker":                   {map[int32]offsets.TopicID{1: other}, nil, 0},
		"one broker, gone":             {map[int32]offsets.TopicID{1: none}, nil, 0},
		"all":                          {map[int32]offsets.TopicID{1: other, 2: other, 3: none}, nil, 0},
		"most, one is down":            {map[int32]offsets.TopicID{1: other, 2: other, 3: other}, []int32{3}, newsPatience},
		"most, one has the planned":    {map[int32]offsets.TopicID{1: none, 2: none, 3: planned}, nil, newsPatience},
		"one of three":                 {map[int32]offsets.TopicID{1: other, 2: planned, 3: planned}, nil, doubtFor},
		"one, nobody else answers":     {map[int32]offsets.TopicID{1: none, 2: planned, 3: planned}, []int32{2, 3}, doubtFor},
		"the first is behind a moment": {map[int32]offsets.TopicID{1: other, 2: planned, 3: planned}, nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := newFake("delete")
				log.add(records(t, 10, record.None), 0)
				f.behind = c.says
				for id := range c.says {
					if id != 1 {
						f.brokers = append(f.brokers, id)
					}
				}
				for _, id := range c.down {
					f.down[id] = true
				}
				if c.after < 0 {
					time.AfterFunc(5*time.Second, func() {
						f.mu.Lock()
						defer f.mu.Unlock()
						f.behind = nil
					})
				}
				began := time.Now()
				got, _, err := drain(t, f, rng(0, 10), Options{})
				took := time.Since(began)
				if c.after < 0 {
					if err != nil || len(got) != 10 || took < 5*time.Second {
						t.Errorf("%d records after %v: %v", len(got), took, err)
					}
					return
				}
				if !errors.Is(err, ErrUnknownTopic) || took < c.after || took > c.after+longPause+newsPatience {
					t.Errorf("after %v: %v, want an unknown topic after %v", took, err, c.after)
				}
				if c.after == 0 && took > 0 {
					t.Errorf("nobody says otherwise, and it took %v", took)
				}
			})
		})
	}
}

// TestReaderDoubtsFromTheFirstAnswer: time in which no leader answered at all counts
// for nothing when one comes back that is behind the others.
func TestReaderDoubtsFromTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planned, other := offsets.TopicID{1, 2, 3}, offsets.TopicID{9}
		f, log := newFake("delete")
		log.add(records(t, 10, record.None), 0)
		f.brokers = []int32{2, 3}
		f.down[1] = true
		time.AfterFunc(doubtFor+5*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.down[1], f.behind = false, map[int32]offsets.TopicID{1: other, 2: planned, 3: planned}
		})
		time.AfterFunc(doubtFor+10*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.behind = nil
		})
		began := time.Now()
		got, _, err := drain(t, f, rng(0, 10), Options{})
		if took := time.Since(began); err != nil || len(got) != 10 || took < doubtFor+5*time.Second {
			t.Errorf("%d records after %v: %v", len(got), took, err)
		}
	})
}
