package group

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"sawlog/offsets"
)

// role is what a shard may answer.
type role uint8

const (
	follower role = iota // NOT_COORDINATOR
	loading              // elected; not everything committed is applied yet
	ready
)

// shard is the coordinator of one partition of __consumer_offsets.
type shard struct {
	co        *Coordinator
	partition int32

	mu     sync.Mutex
	role   role
	closed bool
	epoch  offsets.Epoch
	term   uint64 // counts changes of role: what was begun in an older term is void
	groups map[string]*entry
	parked map[Ticket]func(Effect)
	ticket Ticket
	after  []func() // replies to run when the lock is released

	queue   []*write // not yet taken by the writer
	taken   []*write // being appended
	writing bool     // a writer goroutine of this term runs
	applied applied
}

// entry is a group and what the shell keeps for it.
type entry struct {
	state    *Group
	timers   map[TimerKey]*alarm
	recorded bool // the log holds, or is being given, a metadata record of it
	doomed   bool // tombstones are on their way
	seen     int32
}

func newShard(co *Coordinator, partition int32) *shard {
	return &shard{co: co, partition: partition, groups: map[string]*entry{}, parked: map[Ticket]func(Effect){}}
}

// unlock releases the lock and then runs the replies that came up under it.
func (s *shard) unlock() {
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, fn := range after {
		fn()
	}
}

func (s *shard) reply(fn func()) { s.after = append(s.after, fn) }

// unavailable is the error to answer with while the shard may not answer.
func (s *shard) unavailable() int16 {
	switch s.role {
	case follower:
		return kerr.NotCoordinator.Code
	case loading:
		return kerr.CoordinatorLoadInProgress.Code
	default:
		return 0
	}
}

func nowMilli() int64 { return time.Now().UnixMilli() }

// elect makes the shard load; it gets ready when the applier says so.
func (s *shard) elect(epoch offsets.Epoch) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed || s.role != follower && s.epoch == epoch {
		return
	}
	s.clear()
	s.role, s.epoch = loading, epoch
	s.co.applier.poke(s.partition)
}

// resign answers everything that waits with NOT_COORDINATOR.
func (s *shard) resign(forGood bool) {
	s.mu.Lock()
	defer s.unlock()
	s.closed = s.closed || forGood
	if s.role == follower {
		return
	}
	s.clear()
	s.role, s.epoch = follower, offsets.NoEpoch
	s.co.applier.poke(s.partition)
}

// clear ends a term. The caller holds the lock.
func (s *shard) clear() {
	s.term++
	code := kerr.NotCoordinator.Code
	now := nowMilli()
	for name, e := range s.groups {
		e.state.Kill(now, code)
		s.run(e)
		s.disarm(e)
		delete(s.groups, name)
	}
	writes := append(s.taken, s.queue...)
	s.taken, s.queue, s.writing = nil, nil, false
	for _, w := range writes {
		w.done(code)
	}
	s.applied.fail(code)
}

// load makes the groups of the store's rows and opens the shard, if it is still
// in the term for which it was found complete. It reads the groups' own rows
// only, however many offsets there are.
func (s *shard) load(term uint64) error {
	type row struct {
		name     string
		snapshot Snapshot
	}
	var rows []row
	err := s.co.config.Store.Groups(s.partition, func(name string, meta []byte) {
		snapshot, err := decodeSnapshot(meta)
		if err != nil {
			s.co.metrics.skipped.Add(1)
			s.co.config.Logger.Warn("group metadata passed over", "group", name, "partition", s.partition, "error", err)
			return
		}
		rows = append(rows, row{name, snapshot})
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.unlock()
	if s.term != term || s.role != loading {
		return nil
	}
	now := nowMilli()
	for _, r := range rows {
		e := s.keep(Restore(r.name, s.co.rules, now, r.snapshot))
		e.recorded, e.seen = true, r.snapshot.Generation
		s.run(e)
	}
	s.role = ready
	s.co.metrics.loads.Add(1)
	s.co.config.Logger.Debug("group coordinator ready", "partition", s.partition, "epoch", s.epoch, "groups", len(rows))
	return nil
}

func (s *shard) keep(g *Group) *entry {
	e := &entry{state: g, timers: map[TimerKey]*alarm{}}
	s.groups[g.Name] = e
	return e
}

// group finds a group with members or a generation; nil for one known only by
// its offsets, or not at all.
func (s *shard) group(name string) *Group {
	if e := s.groups[name]; e != nil {
		return e.state
	}
	return nil
}

// park keeps a reply until the effect that answers it.
func (s *shard) park(fn func(Effect)) Ticket {
	s.ticket++
	s.parked[s.ticket] = fn
	return s.ticket
}

// run carries out what a group's last step asked for. The caller holds the lock.
func (s *shard) run(e *entry) {
	for _, effect := range e.state.Take() {
		switch x := effect.(type) {
		case StartTimer:
			s.arm(e, x.Key, time.Duration(x.After)*time.Millisecond)
		case StopTimer:
			s.stop(e, x.Key)
		case JoinReply:
			s.answer(x.Ticket, x)
		case SyncReply:
			s.answer(x.Ticket, x)
		case Write:
			s.persist(e, x)
		}
	}
	if g := e.state.Generation(); g != e.seen {
		e.seen = g
		s.co.metrics.rebalances.Add(1)
	}
	if !e.recorded && !e.doomed && e.state.Blank() && s.groups[e.state.Name] == e {
		delete(s.groups, e.state.Name)
	}
}

func (s *shard) answer(t Ticket, effect Effect) {
	if fn := s.parked[t]; fn != nil {
		delete(s.parked, t)
		s.reply(func() { fn(effect) })
	}
}

func (s *shard) persist(e *entry, x Write) {
	e.recorded = true
	s.enqueue(&write{
		records: single(groupRecord(nowMilli(), e.state.Name, x.Snapshot)),
		done: func(code int16) {
			if s.groups[e.state.Name] == e {
				e.state.Written(nowMilli(), x.ID, code)
				s.run(e)
			}
		},
	})
}

// opening is the term and the epoch in which the shard waits to be loaded.
func (s *shard) opening() (term uint64, epoch offsets.Epoch, loads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term, s.epoch, s.role == loading
}

// still is the error to answer with if the shard has not answered all the time
// since a term, for what was read meanwhile may be another epoch's; or if a
// broker it can't hear of may answer in its place by now.
func (s *shard) still(term uint64) int16 {
	leased := s.co.config.Leased()
	s.mu.Lock()
	defer s.mu.Unlock()
	if code := s.unavailable(); code != 0 || s.term == term && leased {
		return code
	}
	return kerr.NotCoordinator.Code
}

// rank orders the shards for the applier: those that wait to be loaded first.
func (s *shard) rank() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.role {
	case loading:
		return 2
	case ready:
		return 1
	default:
		return 0
	}
}

// reload makes a shard begin again because what was applied proved wrong.
func (s *shard) reload() {
	s.mu.Lock()
	defer s.unlock()
	s.applied.at = 0
	if s.role == ready {
		s.clear()
		s.role = loading
	}
}
