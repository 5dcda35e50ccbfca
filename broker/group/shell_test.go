package group

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// fakeTopic is __consumer_offsets as a broker would host it: logs in memory that
// survive a coordinator.
type fakeTopic struct {
	mu     sync.Mutex
	logs   map[int32]*fakeLog
	fail   error         // of the next appends
	hold   chan struct{} // appends are stored and wait here for their commit
	reads  []offsets.Offset
	topics map[string]offsets.TopicID
	calm   map[int32]bool // partitions that are not settled
	gone   map[int32]bool // partitions that are not hosted
}

type fakeLog struct {
	batches []record.Batch
	start   offsets.Offset
	high    offsets.Offset
	epoch   offsets.Epoch
}

func newFakeTopic() *fakeTopic {
	f := &fakeTopic{
		logs: map[int32]*fakeLog{}, calm: map[int32]bool{}, gone: map[int32]bool{},
		topics: map[string]offsets.TopicID{"t": {1}, "u": {2}},
	}
	for p := range int32(50) {
		f.logs[p] = &fakeLog{epoch: 1}
	}
	return f
}

func (f *fakeTopic) log(p int32) *fakeLog { return f.logs[p] }

func (l *fakeLog) end() offsets.Offset {
	if len(l.batches) == 0 {
		return l.start
	}
	return l.batches[len(l.batches)-1].LastOffset() + 1
}

func (f *fakeTopic) append(ctx context.Context, p int32, epoch offsets.Epoch, b record.Batch) (offsets.Offset, error) {
	f.mu.Lock()
	l := f.log(p)
	if f.fail != nil || epoch != l.epoch {
		defer f.mu.Unlock()
		return 0, cmp.Or[error](f.fail, kerr.FencedLeaderEpoch)
	}
	b = append(record.Batch(nil), b...)
	base := l.end()
	b.Stamp(base, epoch)
	l.batches = append(l.batches, b)
	hold := f.hold
	if hold == nil {
		l.high = l.end()
	}
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
			f.mu.Lock()
			l.high = l.end()
			f.mu.Unlock()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return base, nil
}

func (f *fakeTopic) read(p int32, from, below offsets.Offset, most int) (out []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, from)
	for _, b := range f.log(p).batches {
		if b.LastOffset() < from || b.BaseOffset() >= below || len(out) > 0 && len(out)+len(b) > most {
			continue
		}
		out = append(out, b...)
	}
	return out, nil
}

func (f *fakeTopic) view(p int32) (View, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.log(p)
	if f.gone[p] {
		return View{}, false
	}
	return View{Leads: true, Epoch: l.epoch, Settled: !f.calm[p], LogStart: l.start, HighWatermark: l.high, LogEnd: l.end()}, true
}

func (f *fakeTopic) epochAt(p int32, at offsets.Offset) offsets.Epoch {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.log(p).batches {
		if b.BaseOffset() <= at && at <= b.LastOffset() {
			return b.Epoch()
		}
	}
	return offsets.NoEpoch
}

func (f *fakeTopic) config(store *offsets.Store) Config {
	return Config{
		Partitions: 50, Append: f.append, View: f.view, Read: f.read, EpochAt: f.epochAt, Store: store,
		TopicExists: func(tp offsets.TopicPartition) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			_, ok := f.topics[tp.Topic]
			return ok && tp.Partition < 10
		},
		TopicID: func(name string) (offsets.TopicID, bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			id, ok := f.topics[name]
			return id, ok
		},
		TopicName: func(id offsets.TopicID) (string, bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for name, have := range f.topics {
				if have == id {
					return name, true
				}
			}
			return "", false
		},
	}
}

// rig is a coordinator with its disk.
type rig struct {
	*Coordinator
	t     *testing.T
	topic *fakeTopic
	store *offsets.Store
	path  string
}

func openStore(t *testing.T, path string) *offsets.Store {
	t.Helper()
	store, err := offsets.OpenStore(offsets.StoreConfig{Path: path, Mmap: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// start makes a coordinator that leads everything.
func start(t *testing.T, topic *fakeTopic, path string, change ...func(*Config)) *rig {
	t.Helper()
	store := openStore(t, path)
	c := topic.config(store)
	c.Fail = func(err error) { t.Errorf("store: %v", err) }
	for _, fn := range change {
		fn(&c)
	}
	co, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{co, t, topic, store, path}
	for p := range c.Partitions {
		r.Elected(p, topic.log(p).epoch)
	}
	synctest.Wait()
	return r
}

func (r *rig) stop() {
	r.t.Helper()
	if err := errors.Join(r.Close(), r.store.Close()); err != nil {
		r.t.Error(err)
	}
}

// bubble runs a test in fake time with a coordinator over fresh logs.
func bubble(t *testing.T, fn func(t *testing.T, r *rig), change ...func(*Config)) {
	path := filepath.Join(t.TempDir(), "offsets.db")
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFakeTopic(), path, change...)
		defer r.stop()
		fn(t, r)
	})
}

// call waits for the answer of a handler.
func call[Q, A any](handler func(context.Context, Client, Q, func(A)), q Q) A {
	return <-begin(handler, q)
}

// begin gives the channel an answer will come by.
func begin[Q, A any](handler func(context.Context, Client, Q, func(A)), q Q) <-chan A {
	ch := make(chan A, 1)
	handler(context.Background(), Client{ID: "client", Host: "/127.0.0.1"}, q, func(a A) {
		select {
		case ch <- a:
		default:
			panic("answered twice")
		}
	})
	return ch
}

func joinRequest(group, member string, version int16) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = version
	r.Group, r.MemberID, r.ProtocolType = group, member, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", subscription("t")
	r.Protocols = append(r.Protocols, p)
	return r
}

func syncRequest(group, member string, generation int32, assign map[string]string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = 5
	r.Group, r.MemberID, r.Generation = group, member, generation
	r.ProtocolType, r.Protocol = new("consumer"), new("range")
	for id, what := range assign {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte(what)
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	return r
}

// member is one client in a group.
type member struct {
	group, id  string
	generation int32
}

// stable makes a group of one member, past its first rebalance.
func (r *rig) stable(group string) member {
	r.t.Helper()
	first := call(r.JoinGroup, joinRequest(group, "", 9))
	if first.ErrorCode != kerr.MemberIDRequired.Code {
		r.t.Fatalf("join: %s", codeName(first.ErrorCode))
	}
	joined := call(r.JoinGroup, joinRequest(group, first.MemberID, 9))
	if joined.ErrorCode != 0 {
		r.t.Fatalf("join: %s", codeName(joined.ErrorCode))
	}
	m := member{group, joined.MemberID, joined.Generation}
	synced := call(r.SyncGroup, syncRequest(group, m.id, m.generation, map[string]string{m.id: "assigned"}))
	if synced.ErrorCode != 0 || string(synced.MemberAssignment) != "assigned" {
		r.t.Fatalf("sync: %s %q", codeName(synced.ErrorCode), synced.MemberAssignment)
	}
	return m
}

func (r *rig) heartbeat(m member) string {
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version = 4
	q.Group, q.MemberID, q.Generation = m.group, m.id, m.generation
	return codeName(call(r.Heartbeat, q).ErrorCode)
}

func (r *rig) leave(m member) string {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Version = 0
	q.Group, q.MemberID = m.group, m.id
	return codeName(call(r.LeaveGroup, q).ErrorCode)
}

func commitRequest(m member, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version = 8
	q.Group, q.MemberID, q.Generation = m.group, m.id, m.generation
	o := kmsg.NewOffsetCommitRequestTopic()
	o.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 7, new("note")
	o.Partitions = append(o.Partitions, p)
	q.Topics = append(q.Topics, o)
	return q
}

// outsider commits as one who is not a member.
func outsider(group string) member { return member{group, "", -1} }

func (r *rig) commit(m member, topic string, partition int32, offset int64) string {
	return codeName(call(r.OffsetCommit, commitRequest(m, topic, partition, offset)).Topics[0].Partitions[0].ErrorCode)
}

// committed is what OffsetFetch says; -1 for nothing.
func (r *rig) committed(group, topic string, partition int32) int64 {
	r.t.Helper()
	p := r.fetch(group, topic, partition)
	if p.ErrorCode != 0 {
		r.t.Fatalf("fetch: %s", codeName(p.ErrorCode))
	}
	return p.Offset
}

func (r *rig) fetch(group, topic string, partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 9
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	o := kmsg.NewOffsetFetchRequestGroupTopic()
	o.Topic, o.Partitions = topic, []int32{partition}
	g.Topics = append(g.Topics, o)
	q.Groups = append(q.Groups, g)
	a := call(r.OffsetFetch, q)
	if a.Groups[0].ErrorCode != 0 {
		return fetched(partition, offsets.Committed{}, false, a.Groups[0].ErrorCode)
	}
	return a.Groups[0].Topics[0].Partitions[0]
}

// settle lets everything that can happen without time passing happen.
func settle() { synctest.Wait() }

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}
