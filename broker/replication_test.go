package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

// room is what of a broker replicates, without a controller: a disk, the
// replicas on it, the server that followers fetch from, and the fetchers.
type room struct {
	*Broker
	fs    *vfs.Mem
	alive bool
}

// house is some rooms, and the test's hand as their controller.
type house struct {
	t      testing.TB
	rooms  map[offsets.BrokerID]*room
	config log.Config
	slow   topicConfig // its lists of throttled replicas count
	mu     sync.Mutex
	image  uint64
	topic  controller.Topic
	minISR int
	cut    map[offsets.BrokerID]bool // nobody reaches it, and it reaches nobody
	moved  int64                     // bytes over the connections
}

var houseTopic = offsets.TopicID{7}

func newHouse(t testing.TB, partitions int, ids ...offsets.BrokerID) *house {
	h := &house{t: t, rooms: map[offsets.BrokerID]*room{}, config: log.DefaultConfig(), minISR: 2, cut: map[offsets.BrokerID]bool{}}
	h.topic = controller.Topic{Name: "t", ID: houseTopic}
	for i := range partitions {
		h.topic.Partitions = append(h.topic.Partitions, controller.Partition{
			Index: int32(i), Leader: offsets.NoBroker, Epoch: -1, PartitionEpoch: -1, Replicas: ids, ISR: ids,
		})
	}
	for _, id := range ids {
		h.open(id, vfs.NewMem())
	}
	t.Cleanup(func() {
		for id := range h.rooms {
			h.shut(id)
		}
	})
	return h
}

// open starts a broker over a disk.
func (h *house) open(id offsets.BrokerID, fs *vfs.Mem) *room {
	h.t.Helper()
	disk, err := log.OpenDisk(fs, "/data", log.DiskConfig{})
	if err != nil {
		h.t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(lines{h.t, id}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := &Broker{
		config: Config{Logger: logger, FS: fs}, nodeID: id, disk: disk, topics: newTopicSet(disk.Logs()),
		sessions: newFetchSessions(), following: newFetchSessions(),
		failed: make(chan error, 1), broken: make(chan struct{}),
	}
	b.epoch.Store(int64(100*id) + int64(h.image))
	b.fetchers = replica.NewFetchers(replica.FetchersConfig{
		Self: id, BrokerEpoch: b.epoch.Load, Logger: logger,
		Dial: func(ctx context.Context, leader offsets.BrokerID) (net.Conn, error) { return h.dial(id, leader) },
	})
	b.keeper = replica.NewKeeper(replica.KeeperConfig{ChangeISRs: h.changeISRs(id), Usable: h.usable, Led: b.replicas})
	b.peerServer = wire.NewServer(wire.Config{Handler: peerHandler{b}, Rules: peerRules})
	b.fetchers.Start()
	b.keeper.Start()
	r := &room{Broker: b, fs: fs, alive: true}
	h.mu.Lock()
	h.rooms[id] = r
	h.mu.Unlock()
	return r
}

// lines sends a log to the test.
type lines struct {
	t  testing.TB
	id offsets.BrokerID
}

func (l lines) Write(b []byte) (int, error) {
	l.t.Logf("%d: %s", l.id, bytes.TrimSpace(b))
	return len(b), nil
}

// shut stops a broker in order.
func (h *house) shut(id offsets.BrokerID) {
	r := h.rooms[id]
	if !r.alive {
		return
	}
	h.mu.Lock()
	r.alive = false
	h.mu.Unlock()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.peerServer.Close(gone); err != nil {
		h.t.Error(err)
	}
	r.endReplication()
	if err := r.disk.Close(); err != nil && !errors.Is(err, log.ErrFailed) {
		h.t.Error(err)
	}
}

// dial connects two brokers.
func (h *house) dial(from, to offsets.BrokerID) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[to]
	if !r.alive || h.cut[from] || h.cut[to] {
		return nil, errors.New("nobody there")
	}
	a, b := net.Pipe()
	r.peerServer.ServePeer(b, from)
	return &counted{Conn: a, house: h, ends: [2]offsets.BrokerID{from, to}}, nil
}

// counted is a connection whose bytes are counted, and that can be cut.
type counted struct {
	net.Conn
	house *house
	ends  [2]offsets.BrokerID
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.house.mu.Lock()
	defer c.house.mu.Unlock()
	c.house.moved += int64(n)
	if c.house.cut[c.ends[0]] || c.house.cut[c.ends[1]] {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// bytes is how much went over the connections.
func (h *house) bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moved
}

func (h *house) usable(id offsets.BrokerID) (int64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[id]
	return r.epoch.Load(), r.alive
}

// changeISRs takes every ISR that fits the partition's epochs.
func (h *house) changeISRs(id offsets.BrokerID) func(context.Context, []replica.ISRAsk) []replica.Outcome {
	return func(_ context.Context, asks []replica.ISRAsk) []replica.Outcome {
		out := make([]replica.Outcome, len(asks))
		for i, a := range asks {
			out[i] = replica.Overtaken
			h.mu.Lock()
			p := h.topic.Partitions[a.Partition]
			fits := p.Leader == id && p.PartitionEpoch == a.PartitionEpoch && p.Epoch == a.LeaderEpoch && !h.cut[id]
			h.mu.Unlock()
			if fits {
				out[i] = replica.Granted
				isr := []offsets.BrokerID{}
				for _, m := range a.ISR {
					isr = append(isr, m.ID)
				}
				h.assign(a.Partition, func(p *controller.Partition) { p.ISR = isr })
			}
		}
		return out
	}
}

// assign changes a partition and tells all brokers that are up.
func (h *house) assign(index int32, change func(p *controller.Partition)) {
	h.mu.Lock()
	h.image++
	parts := slices.Clone(h.topic.Partitions)
	change(&parts[index])
	parts[index].PartitionEpoch++
	h.topic.Partitions = parts
	h.mu.Unlock()
	for id := range h.rooms {
		h.tell(id)
	}
}

// lead makes a broker the leader of a partition.
func (h *house) lead(index int32, leader offsets.BrokerID, isr ...offsets.BrokerID) {
	h.assign(index, func(p *controller.Partition) {
		p.Leader, p.ISR = leader, isr
		p.Epoch++
	})
}

// tell brings the metadata to a broker.
func (h *house) tell(id offsets.BrokerID) {
	h.mu.Lock()
	r, meta, image := h.rooms[id], h.topic, h.image
	up := r.alive && !h.cut[id]
	h.mu.Unlock()
	if !up {
		return
	}
	r.topics.changing.Lock()
	defer r.topics.changing.Unlock()
	before := r.topics.id(meta.ID)
	config := h.slow
	config.minISR, config.log = h.minISR, h.config
	t := &topic{meta: &meta, config: config, partitions: make([]*replica.Partition, len(meta.Partitions))}
	for i := range meta.Partitions {
		if before != nil {
			t.partitions[i] = before.partitions[i]
			continue
		}
		l, err := r.claim(offsets.TopicPartition{Topic: meta.Name, Partition: int32(i)}, meta.ID, h.config)
		if err != nil {
			h.t.Error(err)
			return
		}
		t.partitions[i] = replica.New(id, l, nil)
		t.partitions[i].OnISR(r.wantISR)
	}
	r.throttle(t)
	r.adopt([]*topic{t}, r.newEpochs(nil, nil, t), image)
}

// part is a broker's replica.
func (h *house) part(id offsets.BrokerID, index int32) *replica.Partition {
	return h.rooms[id].topics.id(houseTopic).partition(index)
}

// append writes one record as a leader would take it from a client.
func (h *house) append(id offsets.BrokerID, index int32, value string) (replica.Ticket, error) {
	w := record.NewBuilder(record.None, 0)
	w.Append(record.Record{Timestamp: 1, Value: []byte(value)})
	batch, err := w.Batch()
	if err != nil {
		h.t.Fatal(err)
	}
	_, ticket, err := h.part(id, index).Append([]record.Batch{batch}, replica.Append{All: true, Epoch: offsets.NoEpoch, Now: nowMilli()})
	return ticket, err
}

// committed waits until an append is committed.
func (h *house) committed(id offsets.BrokerID, index int32, ticket replica.Ticket) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return h.rooms[id].awaitCommit(ctx, h.part(id, index), ticket)
}

// put appends and waits for the commit.
func (h *house) put(id offsets.BrokerID, index int32, value string) {
	h.t.Helper()
	ticket, err := h.append(id, index, value)
	if err == nil {
		err = h.committed(id, index, ticket)
	}
	if err != nil {
		h.t.Fatalf("%s on %d: %v", value, id, err)
	}
}

// log is the bytes of a replica's log.
func (h *house) log(id offsets.BrokerID, index int32) []byte {
	l := h.part(id, index).Log()
	b, err := l.ReadBytes(l.Start(), 64<<20, l.End())
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// same checks that the replicas hold the same bytes, and that all know that they
// are committed.
func (h *house) same(index int32, ids ...offsets.BrokerID) {
	h.t.Helper()
	first := h.part(ids[0], index)
	for _, id := range ids {
		p := h.part(id, index)
		if got, want := p.Log().End(), first.Log().End(); got != want {
			h.t.Errorf("partition %d: %d ends at %d, %d at %d", index, id, got, ids[0], want)
		}
		if !bytes.Equal(h.log(id, index), h.log(ids[0], index)) {
			h.t.Errorf("partition %d: logs of %d and %d differ", index, id, ids[0])
		}
		if v := p.View(); v.HighWatermark != first.Log().End() {
			h.t.Errorf("partition %d: high watermark of %d is %d of %d", index, id, v.HighWatermark, first.Log().End())
		}
		if got, want := p.Log().LastEpoch(), first.Log().LastEpoch(); got != want {
			h.t.Errorf("partition %d: last epoch of %d is %d, %d", index, id, got, want)
		}
	}
}

func TestRecordsReachAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 4, 1, 2, 3)
		for i := range int32(4) {
			h.lead(i, offsets.BrokerID(1+i%3), 1, 2, 3)
		}
		began := time.Now()
		for n := range 50 {
			for i := range int32(4) {
				h.put(offsets.BrokerID(1+i%3), i, fmt.Sprint("record ", n))
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("200 commits in a row took %v: somebody waits for a long poll", took)
		}
		synctest.Wait()
		for i := range int32(4) { // at once: the high watermark waits for nothing, either
			h.same(i, 1, 2, 3)
		}
	})
}

// A change of one partition of many leaves the others in peace: nobody who waits
// for them is woken, and their followers don't ask for them anew.
func TestAChangeOfOnePartitionIsAboutThatOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 200, 1, 2, 3)
		for i := range int32(200) {
			h.lead(i, 1, 1, 2, 3)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		seen := map[*replica.Partition]uint64{}
		for id := range h.rooms {
			for i := range int32(200) {
				seen[h.part(id, i)] = h.part(id, i).View().Version
			}
		}
		for _, c := range []struct {
			what   string
			change func()
			most   int64 // bytes between the brokers
		}{
			{"an ISR", func() { h.assign(7, func(p *controller.Partition) { p.ISR = []offsets.BrokerID{1, 2} }) }, 0},
			{"a leader", func() { h.lead(7, 2, 2, 1, 3) }, 4 << 10},
		} {
			before := h.bytes()
			c.change()
			synctest.Wait()
			if moved := h.bytes() - before; moved > c.most {
				t.Errorf("%s of one partition of 200 changed: %d bytes went between the brokers, expected at most %d", c.what, moved, c.most)
			}
			for id := range h.rooms {
				for i := range int32(200) {
					if p := h.part(id, i); i != 7 && p.View().Version != seen[p] {
						t.Fatalf("%s of partition 7 changed: who waits for partition %d on %d was woken", c.what, i, id)
					}
				}
			}
		}
		time.Sleep(time.Second)
		h.put(2, 7, "written under the new leader")
		h.put(1, 8, "and beside it")
		synctest.Wait()
		h.same(7, 1, 2, 3)
		h.same(8, 1, 2, 3)
	})
}

func TestLeadershipMovesAndLogsThatDivergedAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1, 1, 2, 3)
		h.lead(0, 1, 1, 2, 3)
		h.put(1, 0, "kept")
		// 1 is cut off and takes records that nobody else has.
		h.isolate(1)
		for i := range 5 {
			if _, err := h.append(1, 0, fmt.Sprint("lost ", i)); err != nil {
				t.Fatal(err)
			}
		}
		h.lead(0, 2, 2, 3)
		h.put(2, 0, "after the first")
		h.lead(0, 3, 2, 3)
		h.put(3, 0, "after the second")
		// 2 too, in an epoch of its own.
		h.lead(0, 2, 2, 3)
		h.isolate(2)
		if _, err := h.append(2, 0, "lost by 2"); err != nil {
			t.Fatal(err)
		}
		h.lead(0, 3, 3)
		h.minISR = 1
		h.assign(0, func(*controller.Partition) {})
		h.put(3, 0, "alone")
		h.rejoin(1)
		h.rejoin(2)
		time.Sleep(2 * time.Second)
		h.same(0, 3, 1, 2)
		if isr := h.isr(); len(isr) != 3 {
			t.Errorf("ISR %v", isr)
		}
		if log := h.log(1, 0); bytes.Contains(log, []byte("lost")) || !bytes.Contains(log, []byte("alone")) {
			t.Error("the wrong records are left")
		}
	})
}

// isr is the ISR of the first partition, as the controller knows it.
func (h *house) isr() []offsets.BrokerID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topic.Partitions[0].ISR
}

// isolate cuts a broker off.
func (h *house) isolate(id offsets.BrokerID) {
	h.mu.Lock()
	h.cut[id] = true
	h.mu.Unlock()
}

// rejoin lets it back in.
func (h *house) rejoin(id offsets.BrokerID) {
	h.mu.Lock()
	delete(h.cut, id)
	h.mu.Unlock()
	h.tell(id)
}

func TestFollowerThatLostItsSuffixIsCompletedAgain(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, 1, 1, 2, 3)
			h.lead(0, 1, 1, 2, 3)
			for n := range 20 {
				h.put(1, 0, fmt.Sprint("record ", n))
			}
			h.shut(3)
			h.lead(0, 1, 1, 2)
			h.put(1, 0, "meanwhile")
			h.open(3, h.rooms[3].fs.CrashClone(rand.New(rand.NewPCG(seed, 1))))
			h.tell(3)
			time.Sleep(2 * time.Second)
			h.same(0, 1, 2, 3)
			// The leader dies without its page cache: nothing is missing elsewhere.
			crashed := h.rooms[1].fs.CrashClone(rand.New(rand.NewPCG(seed, 2)))
			h.shut(1)
			h.lead(0, 2, 2, 3)
			h.put(2, 0, "new leader")
			h.open(1, crashed)
			h.tell(1)
			time.Sleep(2 * time.Second)
			h.same(0, 2, 3, 1)
			if isr := h.isr(); len(isr) != 3 {
				t.Errorf("ISR %v", isr)
			}
		})
	}
}

func TestFollowerBehindTheLogStartBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1, 1, 2, 3)
		h.lead(0, 1, 1, 2, 3)
		h.put(1, 0, "a")
		h.shut(3)
		h.lead(0, 1, 1, 2)
		for n := range 10 {
			h.put(1, 0, fmt.Sprint("record ", n))
		}
		if err := h.part(1, 0).Log().DeleteBefore(8); err != nil {
			t.Fatal(err)
		}
		h.part(1, 0).Trimmed()
		h.put(1, 0, "b")
		synctest.Wait()
		if start := h.part(2, 0).View().LogStart; start != 8 {
			t.Errorf("2 starts at %d", start)
		}
		h.open(3, h.rooms[3].fs)
		h.tell(3)
		time.Sleep(2 * time.Second)
		h.same(0, 1, 2, 3)
		if start := h.part(3, 0).View().LogStart; start != 8 {
			t.Errorf("3 starts at %d", start)
		}
	})
}

func TestISRShrinksAndGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1, 1, 2, 3)
		h.lead(0, 1, 1, 2, 3)
		h.put(1, 0, "a")
		time.Sleep(5 * time.Minute) // idle followers stay in sync
		if isr := h.isr(); len(isr) != 3 {
			t.Fatalf("idle: ISR %v", isr)
		}
		h.isolate(3)
		ticket, err := h.append(1, 0, "b")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if done, err := h.part(1, 0).Committed(ticket); done || err != nil {
			t.Fatalf("committed %v, %v without a member", done, err)
		}
		if err := h.committed(1, 0, ticket); err != nil {
			t.Fatal(err)
		}
		if isr := h.isr(); len(isr) != 2 {
			t.Fatalf("one lags: ISR %v", isr)
		}
		h.isolate(2)
		ticket, err = h.append(1, 0, "c")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.committed(1, 0, ticket); !errors.Is(err, replica.ErrNotEnoughAfterAppend) {
			t.Errorf("alone: %v", err)
		}
		if _, err := h.append(1, 0, "d"); !errors.Is(err, replica.ErrNotEnoughReplicas) {
			t.Errorf("alone: %v", err)
		}
		h.rejoin(2)
		h.rejoin(3)
		time.Sleep(time.Second)
		if isr := h.isr(); len(isr) != 3 {
			t.Fatalf("all back: ISR %v", isr)
		}
		h.put(1, 0, "e")
		synctest.Wait()
		h.same(0, 1, 2, 3)
	})
}

func TestFollowerWaitsForRoomAndForGoodRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, 1, 2)
		h.lead(0, 1, 1, 2)
		h.lead(1, 1, 1, 2)
		h.put(1, 0, "before")
		h.put(1, 1, "before")
		full := true
		h.rooms[2].fs.Inject(func(op vfs.Op, name string) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if full && (op == vfs.OpWrite || op == vfs.OpAllocate) && strings.Contains(name, "t-0/") {
				return syscall.ENOSPC
			}
			return nil
		})
		ticket, err := h.append(1, 0, "no room for it")
		if err != nil {
			t.Fatal(err)
		}
		h.put(1, 1, "another partition goes on")
		time.Sleep(5 * time.Second)
		if done, err := h.part(1, 0).Committed(ticket); done || err != nil {
			t.Errorf("committed %v, %v", done, err)
		}
		h.mu.Lock()
		full = false
		h.mu.Unlock()
		if err := h.committed(1, 0, ticket); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.same(0, 1, 2)
		h.same(1, 1, 2)
	})
}

func TestReadersMayAskANearerReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1, 1, 2, 3)
		h.lead(0, 1, 1, 2, 3)
		h.put(1, 0, "a")
		synctest.Wait()
		near := func(id offsets.BrokerID) bool { return id == 3 }
		if got := h.part(1, 0).Nearest(0, near); got != 3 {
			t.Errorf("nearest is %d", got)
		}
		h.isolate(2)
		if _, err := h.append(1, 0, "b"); err != nil { // on 3 as well, but not committed
			t.Fatal(err)
		}
		synctest.Wait()
		p := h.part(3, 0)
		epoch := p.View().Epoch
		none := offsets.NoEpoch
		var out *log.ErrOffsetOutOfRange
		for _, c := range []struct {
			at   offsets.Offset
			last offsets.Epoch // of the record before, as the reader has it
			any  bool
			want error
			out  bool
		}{
			{0, none, true, nil, false},
			{1, none, true, nil, false},
			{1, epoch, true, nil, false},
			{0, none, false, replica.ErrNotLeader, false},
			{2, none, true, replica.ErrOffsetNotAvailable, false},
			{2, epoch, true, replica.ErrOffsetNotAvailable, false},
			{2, epoch + 1, true, replica.ErrOffsetNotAvailable, false},
			{3, none, true, nil, true},
			{3, epoch, true, nil, true},
			{3, epoch + 1, true, nil, true},
		} {
			r, err := p.Read(replica.Ask{At: c.at, MaxBytes: 1 << 20, Epoch: none, LastEpoch: c.last, Any: c.any})
			if errors.As(err, &out) != c.out || !c.out && !errors.Is(err, c.want) || err == nil && (r.Bytes > 0) != (c.at == 0) || r.Diverging != nil {
				t.Errorf("read at %d of a follower, after epoch %d: %d bytes, diverging %+v, %v", c.at, c.last, r.Bytes, r.Diverging, err)
			}
			for _, region := range r.Regions {
				region.Done()
			}
		}
	})
}
