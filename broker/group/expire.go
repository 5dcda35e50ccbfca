package group

import (
	"strings"
	"time"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// keptPrefix marks the groups of load jobs: their offsets never expire, for a
// job that was paused for weeks must go on where it stopped.
const keptPrefix = "sawlog."

// expiry looks for offsets whose time has run out, every CheckInterval.
func (c *Coordinator) expiry() {
	tick := time.NewTicker(c.config.Settings.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		for _, s := range c.shards {
			if c.ctx.Err() != nil {
				return
			}
			if err := s.expire(); err != nil {
				c.config.Logger.Error("expire offsets", "partition", s.partition, "error", err)
			}
		}
	}
}

// expire queues the tombstones of one partition. They are decided by the leader
// alone and reach every replica through the log.
func (s *shard) expire() error {
	s.mu.Lock()
	open := s.unavailable() == 0
	names := map[string]bool{}
	for name := range s.groups {
		names[name] = true
	}
	s.unlock()
	if !open {
		return nil
	}
	stored, err := s.co.config.Store.OffsetGroups(s.partition)
	if err != nil {
		return err
	}
	for _, name := range stored {
		names[name] = true
	}
	for name := range names {
		if strings.HasPrefix(name, keptPrefix) {
			continue
		}
		out, _, err := s.expired(name, nowMilli())
		if err != nil {
			return err
		}
		s.mu.Lock()
		if s.unavailable() == 0 && (len(out) > 0 || s.finished(name)) {
			s.retire(name)
		}
		s.unlock()
	}
	return nil
}

// finished tells whether a group has neither members nor any hope of one. The
// caller holds the lock.
func (s *shard) finished(name string) bool {
	e := s.groups[name]
	return e != nil && !e.doomed && e.state.state == Empty && len(e.state.pending) == 0
}

// retire queues the deletion of what of a group has run out by the time
// everything written before is applied; an empty group without offsets goes
// with them. The caller holds the lock.
func (s *shard) retire(name string) {
	var gone *entry
	count := 0
	s.enqueue(&write{
		barrier: true,
		records: func() (rs []record.Record, err error) {
			now := nowMilli()
			out, kept, err := s.expired(name, now)
			if err != nil {
				return nil, err
			}
			count = len(out)
			for _, tp := range out {
				rs = append(rs, offsetTombstone(now, name, tp))
			}
			s.mu.Lock()
			defer s.unlock()
			if kept == 0 && s.finished(name) {
				gone = s.groups[name]
				s.doom(gone)
				if gone.recorded {
					rs = append(rs, groupTombstone(now, name))
				}
			}
			return rs, nil
		},
		done: func(code int16) {
			if gone != nil {
				s.buried(gone, code)
			}
			if code == 0 {
				s.co.metrics.expired.Add(int64(count))
			}
		},
	})
}

// expired lists the offsets of a group that have run out, and counts the others.
func (s *shard) expired(name string, now int64) (out []offsets.TopicPartition, kept int, err error) {
	retention := s.co.config.Settings.Retention.Milliseconds()
	type row struct {
		tp   offsets.TopicPartition
		have offsets.Committed
	}
	var rows []row
	err = s.co.config.Store.Offsets(s.partition, name, func(tp offsets.TopicPartition, have offsets.Committed) {
		rows = append(rows, row{tp, have})
	})
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.unlock()
	g := s.group(name)
	for _, r := range rows {
		from, can := r.have.Time, true
		if g != nil {
			from, can = g.ExpiresFrom(r.tp.Topic, r.have.Time)
		}
		over := now-from >= retention
		if r.have.Expires >= 0 {
			over = now >= r.have.Expires
		}
		if can && over || !s.co.current(r.tp.Topic, r.have.TopicID) {
			out = append(out, r.tp)
		} else {
			kept++
		}
	}
	return out, kept, nil
}

// TopicDeleted drops the offsets of a topic by tombstones; those of a topic
// that has taken its name meanwhile stay.
func (c *Coordinator) TopicDeleted(topic string) {
	topic = strings.Clone(topic)
	for _, s := range c.shards {
		s.mu.Lock()
		if s.unavailable() == 0 {
			s.forget(topic)
		}
		s.unlock()
	}
}

func (s *shard) forget(topic string) {
	s.enqueue(&write{
		barrier: true,
		records: func() (rs []record.Record, err error) {
			id, again := s.co.config.TopicID(topic)
			names, err := s.co.config.Store.OffsetGroups(s.partition)
			for i := 0; err == nil && i < len(names); i++ {
				err = s.co.config.Store.Offsets(s.partition, names[i], func(tp offsets.TopicPartition, have offsets.Committed) {
					if tp.Topic == topic && !(again && have.TopicID == id) {
						rs = append(rs, offsetTombstone(nowMilli(), names[i], tp))
					}
				})
			}
			return rs, err
		},
		done: func(code int16) {
			if code != 0 {
				s.co.config.Logger.Warn("offsets of a deleted topic not dropped", "topic", topic, "partition", s.partition, "code", code)
			}
		},
	})
}
