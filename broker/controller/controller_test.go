package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

const testCluster = "nAq1Zt5vQJ6w"

// newDisk is a file system with an empty data directory.
func newDisk(t testing.TB) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	if err := errors.Join(fs.MkdirAll("data", 0o755), fs.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return fs
}

// testConfig is a node with id 1 on a file system.
func testConfig(fs vfs.FS) Config {
	return Config{FS: fs, Dir: "data", NodeID: 1, Directory: incarnation(1, 0), ClusterID: testCluster}
}

// open starts a node and has it closed at the end of the test.
func open(t testing.TB, c Config) *Controller {
	t.Helper()
	o, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// registration is that of the test's broker.
func registration(start int) Registration {
	return Registration{ID: 1, Incarnation: incarnation(1, start), Directory: incarnation(1, 0), Endpoints: []Endpoint{{"plain", "127.0.0.1", 9092}}}
}

// start opens a node on an empty disk and registers its broker.
func start(t testing.TB, c Config) *Controller {
	t.Helper()
	o := open(t, c)
	if _, err := o.RegisterBroker(t.Context(), registration(1)); err != nil {
		t.Fatal(err)
	}
	return o
}

func create(t testing.TB, c *Controller, name string, partitions int32) *Topic {
	t.Helper()
	topic, err := c.CreateTopic(t.Context(), NewTopic{Name: name, Partitions: partitions, ReplicationFactor: -1})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// TestAlone: a node on an empty disk leads at once, by the clock of the test
// without waiting for an election timeout, and again after a restart.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newDisk(t)
		for range 2 {
			began := time.Now()
			c, err := Open(t.Context(), testConfig(fs))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 50*time.Millisecond {
				t.Errorf("leads after %v", took)
			}
			im := c.Image()
			if c.Leader() != 1 || im.ClusterID != testCluster || im.FormatLevel != formatLevel || im.Sequence != 1 {
				t.Errorf("leader %d of %q, format %d, %d entries", c.Leader(), im.ClusterID, im.FormatLevel, im.Sequence)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.CreateTopic(t.Context(), NewTopic{Name: "late", Partitions: 1}); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("closed twice: %v", err)
			}
		}
	})
}

// TestTopicRequests walks through the methods about topics.
func TestTopicRequests(t *testing.T) {
	config := testConfig(newDisk(t))
	config.Defaults = map[string]string{"num.partitions": "2"}
	config.CheckConfigs = func(_ Resource, configs map[string]string) error {
		if _, bad := configs["bad"]; bad {
			return errors.New("no such key")
		}
		return nil
	}
	c := start(t, config)
	ctx := t.Context()

	dry, err := c.CreateTopic(ctx, NewTopic{Name: "orders", Partitions: -1, ReplicationFactor: -1, ValidateOnly: true})
	if _, made := c.Image().TopicByName("orders"); err != nil || made || len(dry.Partitions) != 2 {
		t.Fatalf("validate only: %+v, made %v, %v", dry, made, err)
	}
	topic := create(t, c, "orders", -1)
	if have, _ := c.Image().TopicByID(topic.ID); have != topic || topic.ID.IsZero() || topic.ID.String()[0] == '-' {
		t.Errorf("topic %+v is not in the image", topic)
	}
	if _, err := c.CreateTopic(ctx, NewTopic{Name: "orders", Partitions: 1}); !errors.Is(err, ErrTopicExists) {
		t.Errorf("created again: %v", err)
	}
	if _, err := c.CreateTopic(ctx, NewTopic{Name: "cfg", Partitions: 1, ReplicationFactor: 1, Configs: map[string]string{"bad": "1"}}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("bad configuration: %v", err)
	}

	if grown, err := c.CreatePartitions(ctx, "orders", 5, nil, true); err != nil || len(grown.Partitions) != 5 || len(c.Image().Topics()[0].Partitions) != 2 {
		t.Errorf("validate only: %+v, %v", grown, err)
	}
	if grown, err := c.CreatePartitions(ctx, "orders", 5, nil, false); err != nil || len(grown.Partitions) != 5 || grown.ID != topic.ID {
		t.Errorf("grown to %+v, %v", grown, err)
	}
	if _, err := c.CreatePartitions(ctx, "nothing", 5, nil, false); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("grown: %v", err)
	}

	resource := Resource{TopicResource, "orders"}
	change := ConfigChange{Resource: resource, Ops: []ConfigOp{{Set, "retention.ms", "1000"}}, ValidateOnly: true}
	if err := c.AlterConfigs(ctx, change); err != nil || len(c.Image().Topics()[0].Configs) != 0 {
		t.Errorf("validate only: %v, %v", c.Image().Topics()[0].Configs, err)
	}
	change.ValidateOnly = false
	if err := c.AlterConfigs(ctx, change); err != nil || c.Image().Topics()[0].Configs["retention.ms"] != "1000" {
		t.Errorf("altered: %v, %v", c.Image().Topics()[0].Configs, err)
	}

	if err := c.DeleteTopic(ctx, topic.ID); err != nil || c.Image().TopicCount() != 0 {
		t.Errorf("deleted: %v", err)
	}
	if err := c.DeleteTopic(ctx, topic.ID); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("deleted again: %v", err)
	}
}

// TestBrokerRequests walks through the methods of brokers about themselves.
func TestBrokerRequests(t *testing.T) {
	c := open(t, testConfig(newDisk(t)))
	ctx := t.Context()
	epoch, err := c.RegisterBroker(ctx, registration(1))
	if b, _ := c.Image().Broker(1); err != nil || epoch != int64(c.Image().Index) || b.Epoch != epoch {
		t.Fatalf("epoch %d at index %d: %v", epoch, c.Image().Index, err)
	}
	if again, err := c.RegisterBroker(ctx, registration(1)); err != nil || again != epoch {
		t.Errorf("registered again: epoch %d, %v", again, err)
	}
	topic := create(t, c, "orders", 5)
	isr := ISRChange{Topic: topic.ID, Partition: 1, Broker: 1, BrokerEpoch: epoch, ISR: []Member{{1, epoch}}}
	isrs, err := c.ChangeISRs(ctx, []ISRChange{isr})
	if err != nil || isrs[0].Err != nil || isrs[0].Partition.Leader != 1 {
		t.Fatalf("isr: %+v, %v", isrs, err)
	}
	isr.PartitionEpoch = isrs[0].Partition.PartitionEpoch
	isr.BrokerEpoch++
	if isrs, err = c.ChangeISRs(ctx, []ISRChange{isr}); err != nil || !errors.Is(isrs[0].Err, ErrStaleBrokerEpoch) {
		t.Errorf("isr: %+v, %v", isrs, err)
	}
	elected, err := c.ElectLeaders(ctx, Preferred, []offsets.TopicPartition{{Topic: "orders", Partition: 0}})
	if err != nil || !errors.Is(elected[0].Err, ErrElectionNotNeeded) {
		t.Errorf("election: %+v, %v", elected, err)
	}
	if err := c.ChangeBroker(ctx, BrokerChange{ID: 1, Epoch: epoch, Fenced: true}); err != nil || c.Image().Topics()[0].Partitions[4].Leader != offsets.NoBroker {
		t.Errorf("fenced: %v", err)
	}
	if err := c.UnregisterBroker(ctx, 1); !errors.Is(err, ErrDuplicateBroker) {
		t.Errorf("the node that forgets forgot itself: %v", err)
	}

	for i := range int64(3) {
		if first, count, err := c.ProducerIDs(ctx); err != nil || first != i*1000 || count != 1000 {
			t.Errorf("producer ids %d, %d, %v", first, count, err)
		}
	}
	for i := range offsets.BrokerID(3) {
		if id, err := c.NodeID(ctx); err != nil || id != 2+i {
			t.Errorf("node id %d, %v", id, err)
		}
	}
	if err := c.DeleteTopic(ctx, topic.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.Barrier(ctx); err != nil {
		t.Error(err)
	}
}

// TestOnChange: every image is told once, in order, and before the one who
// asked for it gets his answer.
func TestOnChange(t *testing.T) {
	var told []*Image
	config := testConfig(newDisk(t))
	config.OnChange = func(old, next *Image) {
		switch {
		case len(told) == 0 && old.Sequence != 0:
			t.Errorf("the first change begins with entry %d", old.Sequence)
		case len(told) > 0 && old != told[len(told)-1]:
			t.Errorf("entry %d is told after %d", next.Sequence, old.Sequence)
		}
		told = append(told, next)
	}
	c, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != c.Image() {
		t.Fatalf("%d images told by Open", len(told))
	}
	if _, err := c.RegisterBroker(t.Context(), registration(1)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		topic := create(t, c, fmt.Sprint("t", i), 1)
		if have, _ := told[len(told)-1].TopicByID(topic.ID); have != topic {
			t.Fatalf("topic %d was answered before it was told", i)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 12 {
		t.Errorf("%d images told", len(told))
	}
	before := told[11]
	told = nil
	c, err = Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].Hash() != before.Hash() {
		t.Errorf("after a restart %d images are told", len(told))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCoalescing: proposals that wait while an entry is applied go into one
// entry together, and are decided in order: of two topics with one name the
// second is refused, and no producer id is given twice.
func TestCoalescing(t *testing.T) {
	const waiting = 300
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	config := testConfig(newDisk(t))
	config.OnChange = func(_, next *Image) {
		if _, ok := next.TopicByName("first"); ok {
			once.Do(func() {
				close(held)
				<-hold
			})
		}
	}
	c := start(t, config)
	var all sync.WaitGroup
	all.Go(func() { create(t, c, "first", 1) })
	<-held
	before := c.Image().Sequence
	var made, refused atomic.Int32
	for i := range waiting {
		all.Go(func() {
			_, err := c.CreateTopic(t.Context(), NewTopic{Name: fmt.Sprint("t", i/2), Partitions: 2, ReplicationFactor: 1})
			switch {
			case errors.Is(err, ErrTopicExists):
				refused.Add(1)
			case err == nil:
				made.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	for len(c.queue) < waiting {
		runtime.Gosched() // they are on their way
	}
	close(hold)
	all.Wait()
	if made.Load() != waiting/2 || refused.Load() != waiting/2 {
		t.Errorf("%d made, %d refused", made.Load(), refused.Load())
	}
	if entries := c.Image().Sequence - before; entries > 1+1 { // "first", then all that waited
		t.Errorf("%d requests took %d entries", waiting, entries)
	}
	blocks := make([]int64, waiting)
	for i := range blocks {
		all.Go(func() {
			var err error
			if blocks[i], _, err = c.ProducerIDs(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(blocks)
	if n := len(slices.Compact(blocks)); n != waiting {
		t.Errorf("%d blocks of producer ids for %d", n, waiting)
	}
	checkImage(t, &world{image: c.Image(), settings: c.settings})
}

// TestEntryLimits: a restart of a broker with 10,000 partitions is decided in
// one go and written in entries none of which is too large; what can't be cut
// is refused.
func TestEntryLimits(t *testing.T) {
	c := start(t, testConfig(newDisk(t)))
	for i := range 5 {
		create(t, c, fmt.Sprint("t", i), 2000)
	}
	if _, err := c.CreateTopic(t.Context(), NewTopic{Name: "toolarge", Partitions: 10_000, ReplicationFactor: 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("10,000 partitions at once: %v", err)
	}
	huge := registration(3)
	huge.Rack = string(make([]byte, maxEntryBytes))
	if _, err := c.RegisterBroker(t.Context(), huge); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a record larger than an entry: %v", err)
	}
	before := c.Image()
	if _, err := c.RegisterBroker(t.Context(), registration(2)); err != nil {
		t.Fatal(err)
	}
	if n := c.Image().Sequence - before.Sequence; n < 2 || n > 5 {
		t.Errorf("the restart took %d entries", n)
	}
	for _, topic := range c.Image().Topics() {
		for i := range topic.Partitions {
			if p := &topic.Partitions[i]; p.Leader != 1 || p.Epoch == 0 {
				t.Fatalf("%s: %s", topic.Name, partitionText(p))
			}
		}
	}
	last, err := c.entries.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for index := uint64(1); index <= last; index++ {
		var l raft.Log
		if err := c.entries.GetLog(index, &l); err != nil {
			t.Fatal(err)
		}
		if l.Type != raft.LogCommand {
			continue
		}
		if _, records, err := decodeEntry(l.Data); err != nil || len(records) > maxEntryRecords || len(l.Data) > maxEntryBytes {
			t.Errorf("entry %d: %d records, %d bytes, %v", index, len(records), len(l.Data), err)
		}
	}
}

// TestCancelled: who gives up is told what is known.
func TestCancelled(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	config := testConfig(newDisk(t))
	config.OnChange = func(_, next *Image) {
		if _, ok := next.TopicByName("slow"); ok && held != nil {
			close(held)
			held = nil
			<-hold
		}
	}
	wait := held
	c := start(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := c.CreateTopic(ctx, NewTopic{Name: "slow", Partitions: 1, ReplicationFactor: 1}); !errors.Is(err, ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("given up on the way: %v", err)
		}
	})
	<-wait
	cancel()
	all.Wait()
	if _, err := c.CreateTopic(ctx, NewTopic{Name: "never", Partitions: 1, ReplicationFactor: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before: %v", err)
	}
	close(hold)
	if err := c.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, slow := c.Image().TopicByName("slow")
	_, never := c.Image().TopicByName("never")
	if !slow || never {
		t.Errorf("slow made: %v, never made: %v", slow, never)
	}
}

// TestRestartsAndHash: a node restarted many times, with and without warning,
// keeps its image; the hash that goes into every 1024th entry is checked.
func TestRestartsAndHash(t *testing.T) {
	fs := newDisk(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	want := emptyImage().Hash()
	for round := range 8 {
		c, err := Open(t.Context(), testConfig(fs))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Image().Hash(); round > 0 && got != want {
			t.Fatalf("round %d: the image is not what it was", round)
		}
		if _, err := c.RegisterBroker(t.Context(), registration(round)); err != nil {
			t.Fatal(err)
		}
		for range 150 {
			if _, _, err := c.ProducerIDs(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		create(t, c, fmt.Sprint("t", round), 3)
		want = c.Image().Hash()
		crashed := fs.CrashClone(rnd)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			fs = crashed
		}
	}
}

// TestTakeOver: a node that takes over finishes what its forerunner left half
// done: here a broker fenced, but not yet what it led given away.
func TestTakeOver(t *testing.T) {
	fs := newDisk(t)
	c, err := Open(t.Context(), testConfig(fs))
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := c.RegisterBroker(t.Context(), registration(1))
	if err != nil {
		t.Fatal(err)
	}
	create(t, c, "orders", 2)
	if o := c.propose(t.Context(), decideAsk(func(*Image) (decision, error) {
		return decision{records: []record{&brokerChangeRecord{ID: 1, Epoch: epoch, Fenced: true}}}, nil
	})); o.err != nil {
		t.Fatal(o.err)
	}
	if p := c.Image().Topics()[0].Partitions[0]; p.Leader != 1 {
		t.Fatalf("nothing is left to do: %s", partitionText(&p))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, testConfig(fs))
	for _, p := range c.Image().Topics()[0].Partitions {
		if p.Leader != offsets.NoBroker || !slices.Equal(p.ELR, []offsets.BrokerID{1}) {
			t.Errorf("left as it was: %s", partitionText(&p))
		}
	}
	checkImage(t, &world{image: c.Image(), settings: c.settings})
}

// decideAsk is a wish that only this node can decide on.
type decideAsk func(*Image) (decision, error)

func (a decideAsk) decide(im *Image, _ settings) (decision, answer, error) {
	d, err := a(im)
	return d, answer{}, err
}

func (decideAsk) repeatable() bool { return false }
