package group

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// DeleteGroups serves versions 0–3: groups without members, with all their
// offsets. It is answered when the last of them is gone.
func (c *Coordinator) DeleteGroups(_ context.Context, _ Client, r *kmsg.DeleteGroupsRequest, done func(*kmsg.DeleteGroupsResponse)) {
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Version = r.Version
	names := make([]string, 0, len(r.Groups))
	seen := make(map[string]bool, len(r.Groups))
	for _, name := range r.Groups {
		if !seen[name] {
			seen[name] = true
			names = append(names, strings.Clone(name))
		}
	}
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(names))
	if len(names) == 0 {
		done(resp)
		return
	}
	var left atomic.Int64
	left.Store(int64(len(names)))
	for i, name := range names {
		slot := &resp.Groups[i]
		slot.Default()
		slot.Group = name
		c.shard(name).delete(name, func(code int16) {
			slot.ErrorCode = code
			if left.Add(-1) == 0 {
				done(resp)
			}
		})
	}
}

// delete writes tombstones for a group and all its offsets. While they are on
// their way the group is Dead and accepts nothing.
func (s *shard) delete(name string, done func(int16)) {
	s.mu.Lock()
	defer s.unlock()
	code := s.unavailable()
	e := s.groups[name]
	if code == 0 {
		if e != nil {
			code = e.state.CheckDelete()
		} else {
			code = s.offsetsOnly(name)
		}
	}
	if code != 0 {
		s.reply(func() { done(code) })
		return
	}
	if e == nil {
		e = s.keep(NewGroup(name, s.co.rules, nowMilli()))
	}
	s.doom(e)
	s.enqueue(&write{
		barrier: true,
		records: func() (rs []record.Record, err error) {
			err = s.co.config.Store.Offsets(s.partition, name, func(tp offsets.TopicPartition, _ offsets.Committed) {
				rs = append(rs, offsetTombstone(nowMilli(), name, tp))
			})
			if e.recorded {
				rs = append(rs, groupTombstone(nowMilli(), name))
			}
			return rs, err
		},
		done: func(code int16) {
			s.buried(e, code)
			s.reply(func() { done(code) })
		},
	})
}

// doom makes a group Dead before its tombstones are written. The caller holds
// the lock, as for buried.
func (s *shard) doom(e *entry) {
	e.doomed = true
	e.state.Kill(nowMilli(), kerr.CoordinatorNotAvailable.Code)
	s.run(e)
	s.disarm(e)
}

// buried forgets a group whose tombstones are committed, or takes it back as
// the store has it when they are not.
func (s *shard) buried(e *entry, code int16) {
	name := e.state.Name
	if s.groups[name] != e {
		return
	}
	delete(s.groups, name)
	if code == 0 || !e.recorded {
		return
	}
	meta, ok, err := s.co.config.Store.Group(s.partition, name)
	if err == nil && ok {
		var snapshot Snapshot
		if snapshot, err = decodeSnapshot(meta); err == nil {
			back := s.keep(Restore(name, s.co.rules, nowMilli(), snapshot))
			back.recorded, back.seen = true, snapshot.Generation
			s.run(back)
		}
	}
	if err != nil {
		s.co.config.Logger.Error("take back a group", "group", name, "error", err)
	}
}
