package replica

import (
	"errors"
	"slices"
	"testing"

	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// replicaOne is broker 1's replica of a partition, over a disk in memory.
func replicaOne(t *testing.T) *Partition {
	t.Helper()
	disk, err := log.OpenDisk(vfs.NewMem(), "/data", log.DiskConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	l, err := disk.Create(offsets.TopicPartition{Topic: "t"}, offsets.TopicID{1}, log.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return New(1, l, nil)
}

func oneRecord(t *testing.T) []record.Batch {
	t.Helper()
	w := record.NewBuilder(record.None, 0)
	w.Append(record.Record{Timestamp: 1, Value: []byte("v")})
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	return []record.Batch{b}
}

// fetched tells the leader how far a follower is.
func (p *Partition) fetched(follower offsets.BrokerID, end offsets.Offset) {
	p.change(0, func(s *State) {
		f := Fetch{Follower: follower, LeaderEpoch: s.assigned.Epoch, At: end, LastEpoch: offsets.NoEpoch}
		if _, err := s.Serve(f, p.log); err != nil {
			panic(err)
		}
	})
}

func TestAppendIsRefused(t *testing.T) {
	p := replicaOne(t)
	for _, tc := range []struct {
		name string
		a    Assignment
		ask  Append
		want error
	}{
		{"nobody leads yet", Assignment{Leader: offsets.NoBroker, Epoch: 0, PartitionEpoch: 1}, Append{Epoch: offsets.NoEpoch}, ErrNotLeader},
		{"another one leads", assignment(2, 1, 2, 2, 1, 2), Append{Epoch: offsets.NoEpoch}, ErrNotLeader},
		{"an epoch before, of another leader", assignment(2, 2, 3, 2, 1, 2), Append{Epoch: 1}, ErrFencedEpoch},
		{"an epoch to come", assignment(1, 3, 4, 2, 1, 2), Append{Epoch: 4}, ErrUnknownEpoch},
		{"too few in sync", assignment(1, 3, 5, 2, 1), Append{Epoch: offsets.NoEpoch, All: true}, ErrNotEnoughReplicas},
		{"too few in sync, and nobody minds", assignment(1, 3, 6, 2, 1), Append{Epoch: offsets.NoEpoch}, nil},
		{"enough in sync", assignment(1, 3, 7, 2, 1, 2), Append{Epoch: offsets.NoEpoch, All: true}, nil},
	} {
		p.Assign(tc.a)
		before := p.Log().End()
		_, _, err := p.Append(oneRecord(t), tc.ask)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if wrote := p.Log().End() > before; wrote != (tc.want == nil) {
			t.Errorf("%s: the log ends at %d, before at %d", tc.name, p.Log().End(), before)
		}
	}
}

// An acknowledgement waits for the high watermark, and is bound to the epoch.
func TestAcknowledgement(t *testing.T) {
	p := replicaOne(t)
	p.Assign(assignment(1, 1, 1, 2, 1, 2))
	appended := func() Ticket {
		t.Helper()
		_, ticket, err := p.Append(oneRecord(t), Append{All: true, Epoch: offsets.NoEpoch})
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	check := func(what string, ticket Ticket, want bool, wantErr error) {
		t.Helper()
		if done, err := p.Committed(ticket); done != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: %v, %v; want %v, %v", what, done, err, want, wantErr)
		}
	}
	first := appended()
	check("nobody else has it", first, false, nil)
	p.fetched(2, 1)
	check("the follower has it", first, true, nil)
	second := appended()
	p.Assign(assignment(1, 1, 2, 2, 1))
	check("the follower left", second, false, ErrNotEnoughAfterAppend)
	p.Assign(assignment(1, 1, 3, 2, 1, 2))
	check("and is back", second, false, nil)
	p.Assign(assignment(2, 2, 4, 2, 1, 2))
	check("another one leads", second, false, ErrNotLeader)
	p.Assign(assignment(1, 3, 5, 2, 1, 2))
	p.fetched(2, 2)
	check("it leads again, in another epoch", second, false, ErrNotLeader)
	p.Gone()
	check("deleted", second, false, ErrGone)
}

// A new leader tells no end before its high watermark reached what it began with.
// TestWhoWaitsLearnsWhereToAsk: records that went on to other brokers are not
// unknown there, so a producer must not be told that their topic is.
func TestWhoWaitsLearnsWhereToAsk(t *testing.T) {
	for _, tc := range []struct {
		end  func(*Partition)
		want error
	}{{(*Partition).Gone, ErrGone}, {(*Partition).Left, ErrNotLeader}} {
		p := replicaOne(t)
		ids := []offsets.BrokerID{1, 2}
		p.Assign(Assignment{Leader: 1, Epoch: 3, PartitionEpoch: 1, Replicas: ids, ISR: ids, MinISR: 2})
		_, ticket, err := p.Append(oneRecord(t), Append{All: true, Epoch: offsets.NoEpoch})
		if err != nil {
			t.Fatal(err)
		}
		tc.end(p)
		if done, err := p.Committed(ticket); done || !errors.Is(err, tc.want) {
			t.Errorf("%v, %v, want %v", done, err, tc.want)
		}
		if _, err := p.Check(offsets.NoEpoch); !errors.Is(err, tc.want) {
			t.Errorf("a new request: %v, want %v", err, tc.want)
		}
	}
}

func TestEndIsNotToldTooEarly(t *testing.T) {
	p := replicaOne(t)
	p.Assign(assignment(1, 1, 1, 1, 1))
	for range 3 {
		if _, _, err := p.Append(oneRecord(t), Append{Epoch: offsets.NoEpoch}); err != nil {
			t.Fatal(err)
		}
	}
	late := New(1, p.Log(), nil) // as after a restart: its high watermark is unknown
	late.Assign(assignment(1, 2, 2, 2, 1, 2))
	if _, _, err := late.Latest(offsets.NoEpoch, false); !errors.Is(err, ErrOffsetNotAvailable) {
		t.Errorf("the end while nothing is committed: %v", err)
	}
	if r, err := late.Read(Ask{At: 0, MaxBytes: 1 << 20, Epoch: offsets.NoEpoch, LastEpoch: offsets.NoEpoch}); err != nil || r.Bytes != 0 {
		t.Errorf("%d bytes are read above the high watermark, %v", r.Bytes, err)
	}
	late.fetched(2, 3)
	if end, epoch, err := late.Latest(offsets.NoEpoch, false); err != nil || end != 3 || epoch != 2 {
		t.Errorf("end %d in epoch %d, %v", end, epoch, err)
	}
}

// counter is a Waiter.
type counter struct {
	bytes []int64
}

func (c *counter) Wake(bytes int64) { c.bytes = append(c.bytes, bytes) }

func TestWaitersAreWoken(t *testing.T) {
	p := replicaOne(t)
	p.Assign(assignment(1, 1, 1, 2, 1, 2))
	var c, late counter
	p.Watch(&c, p.View().Version)
	seen := p.View().Version
	if _, _, err := p.Append(oneRecord(t), Append{Epoch: offsets.NoEpoch}); err != nil {
		t.Fatal(err)
	}
	if len(c.bytes) != 0 {
		t.Errorf("an append that nobody may read woke: %v", c.bytes)
	}
	p.Watch(&late, seen)
	if len(late.bytes) != 1 || late.bytes[0] != -1 {
		t.Errorf("what came before the watch: %v", late.bytes)
	}
	p.fetched(2, 1)
	if len(c.bytes) != 1 {
		t.Errorf("a high watermark that moved: %v", c.bytes)
	}
	p.Unwatch(&late)
	p.Unwatch(&late) // twice is no harm
	p.Trimmed()
	if len(c.bytes) != 2 || c.bytes[1] != -1 || len(late.bytes) != 2 {
		t.Errorf("a log start that moved: %v; who left heard %v", c.bytes, late.bytes)
	}
}

// Who waits for an append is woken when it is committed, once, and not for what
// others append; and each time something happened that may end the wait.
func TestAppendsAreAwaited(t *testing.T) {
	p := replicaOne(t)
	p.Assign(assignment(1, 1, 1, 2, 1, 2))
	var tickets [3]Ticket
	var w [3]counter
	for i := range tickets {
		var err error
		if _, tickets[i], err = p.Append(oneRecord(t), Append{Epoch: offsets.NoEpoch}); err != nil {
			t.Fatal(err)
		}
		p.Await(&w[i], tickets[i])
	}
	expect := func(what string, want ...[]int64) {
		t.Helper()
		for i := range w {
			if !slices.Equal(w[i].bytes, want[i]) {
				t.Errorf("%s: append %d heard %v, want %v", what, i, w[i].bytes, want[i])
			}
		}
	}
	expect("appended", nil, nil, nil)
	p.fetched(2, 1)
	expect("the first is committed", []int64{0}, nil, nil)
	p.fetched(2, 2)
	expect("the second is committed", []int64{0}, []int64{0}, nil)
	if p.Unawait(&w[0], tickets[0]) || !p.Unawait(&w[2], tickets[2]) || p.Unawait(&w[2], tickets[2]) {
		t.Error("who heard that it is committed waits still, or who didn't doesn't")
	}
	var late, other counter
	p.Await(&late, tickets[0])
	if !slices.Equal(late.bytes, []int64{-1}) {
		t.Errorf("a wait for what is committed already heard %v", late.bytes)
	}
	p.Await(&other, tickets[2])
	p.Assign(assignment(2, 2, 2, 2, 1, 2)) // another leads
	if !slices.Equal(other.bytes, []int64{-1}) {
		t.Errorf("the end of the epoch: %v", other.bytes)
	}
	if done, err := p.Committed(tickets[2]); done || !errors.Is(err, ErrNotLeader) {
		t.Errorf("committed %v, %v", done, err)
	}
	p.Gone()
	if !slices.Equal(other.bytes, []int64{-1, -1}) || len(w[2].bytes) != 0 {
		t.Errorf("the end of the partition: %v; who gave up heard %v", other.bytes, w[2].bytes)
	}
}

// A reader whose last record is of an epoch that this log doesn't have holds
// another history, which ends where the epoch before does.
func TestDivergence(t *testing.T) {
	p := replicaOne(t)
	for i, epoch := range []offsets.Epoch{1, 1, 5, 5, 5} {
		p.Assign(assignment(1, epoch, offsets.Epoch(i+1), 1, 1))
		if _, _, err := p.Append(oneRecord(t), Append{Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Log().DeleteBefore(1); err != nil {
		t.Fatal(err)
	}
	p.Trimmed()
	for _, tc := range []struct {
		name string
		at   offsets.Offset
		last offsets.Epoch
		want *EpochEnd // nil: it reads, or is out of range
		out  bool
	}{
		{"the same history", 3, 5, nil, false},
		{"no epoch told", 3, offsets.NoEpoch, nil, false},
		{"the end of the first epoch", 2, 1, nil, false},
		{"more of the first epoch than there is", 3, 1, &EpochEnd{1, 2}, false},
		{"an epoch between", 2, 3, &EpochEnd{1, 2}, false},
		{"an epoch between, below the start", 0, 3, nil, true},
		{"an epoch to come", 5, 6, nil, true},
		{"beyond the end", 9, 5, &EpochEnd{5, 5}, false},
	} {
		r, err := p.Read(Ask{At: tc.at, MaxBytes: 1 << 20, Epoch: offsets.NoEpoch, LastEpoch: tc.last})
		var out *log.ErrOffsetOutOfRange
		switch {
		case errors.As(err, &out) != tc.out || err != nil && !tc.out:
			t.Errorf("%s: %v", tc.name, err)
		case (r.Diverging == nil) != (tc.want == nil) || tc.want != nil && *r.Diverging != *tc.want:
			t.Errorf("%s: diverging %+v, want %+v", tc.name, r.Diverging, tc.want)
		case r.Diverging != nil && r.Bytes > 0:
			t.Errorf("%s: diverging, and %d bytes", tc.name, r.Bytes)
		}
		for _, region := range r.Regions {
			region.Done()
		}
	}
}
