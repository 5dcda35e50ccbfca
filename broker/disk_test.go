package broker_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

func TestRetentionDeletesAndHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "free", 1, "retention.ms", "600000", "segment.ms", "60000")
		createTopic(t, c, "held", 1, "retention.ms", "600000", "segment.ms", "60000", "retention.hold.job", "0:5")
		for range 30 {
			for _, topic := range []string{"free", "held"} {
				if got := put(t, c, topic, batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
					t.Fatal(got.ErrorCode)
				}
			}
			time.Sleep(2 * time.Minute)
		}
		start, end := listed(t, c, "free", -2).Offset, listed(t, c, "free", -1).Offset
		if end != 30 || start < 23 || start > 26 {
			t.Errorf("free: [%d, %d) after an hour with ten minutes' retention", start, end)
		}
		if start := listed(t, c, "held", -2).Offset; start != 5 {
			t.Errorf("held: starts at %d, a load job needs 5", start)
		}
		if code := altered(t, c, "held", "retention.hold.job", kmsg.IncrementalAlterConfigOpDelete, ""); code != 0 {
			t.Fatal(code)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if held := listed(t, c, "held", -2).Offset; held < 23 {
			t.Errorf("let go: starts at %d", held)
		}
		if got := get(t, c, "free", 1); got.ErrorCode != kerr.OffsetOutOfRange.Code {
			t.Errorf("fetch of a deleted record: code %d", got.ErrorCode)
		}
	})
}

func TestHoldGivesWayAtItsCap(t *testing.T) {
	inBubble(t, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		createTopic(t, c, "aged", 1, "retention.ms", "60000", "segment.ms", "60000", "retention.hold.job", "0:0", "retention.hold.max.ms", "1200000")
		createTopic(t, c, "sized", 1, "retention.ms", "60000", "segment.ms", "60000", "retention.hold.job", "0:0", "retention.hold.max.bytes", "1000")
		createTopic(t, c, "brief", 1, "retention.ms", "60000", "segment.ms", "60000", "retention.hold.job", "0:0,max.ms:1200000", "retention.hold.gone", "0:0,max.ms:60000")
		createTopic(t, c, "long", 1, "retention.ms", "60000", "segment.ms", "60000", "retention.hold.job", "0:0,max.ms:9000000", "retention.hold.max.ms", "1200000")
		for range 30 {
			for _, topic := range []string{"aged", "sized", "brief", "long"} {
				if got := put(t, c, topic, batchOf(t, record.None, now(), "0123456789")); got.ErrorCode != 0 {
					t.Fatal(got.ErrorCode)
				}
			}
			time.Sleep(2 * time.Minute)
		}
		for _, topic := range []string{"aged", "brief", "long"} { // by the topic's cap, the job's, and the lower of both
			if start := listed(t, c, topic, -2).Offset; start < 17 || start > 22 {
				t.Errorf("%s: starts at %d, 20 of 60 minutes may be held", topic, start)
			}
		}
		if start := listed(t, c, "sized", -2).Offset; start == 0 || start > 27 {
			t.Errorf("sized: starts at %d", start)
		}
	})
}

// onDisk runs a broker in a bubble on a disk whose faults the test decides.
func onDisk(t *testing.T, test func(t *testing.T, disk *vfs.Mem, b *broker.Broker, c *wire.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		network, disk := brokertest.NewNetwork(), vfs.NewMem()
		b, err := broker.Open(t.Context(), broker.Config{FS: disk, Dir: "/data", Listener: network, Advertise: "broker:9092"})
		if err != nil {
			t.Fatal(err)
		}
		nc, err := network.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := wire.NewConn(t.Context(), nc, "bubble")
		if err != nil {
			t.Fatal(err)
		}
		test(t, disk, b, c)
		_ = c.Close()            // it may be closed already
		_ = b.Close(t.Context()) // a failed disk can't be closed cleanly
	})
}

func TestFirstIOErrorStopsEverything(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		t.Run(string(op), func(t *testing.T) {
			onDisk(t, func(t *testing.T, disk *vfs.Mem, b *broker.Broker, c *wire.Conn) {
				createTopic(t, c, "t", 1, "flush.messages", "1")
				disk.Inject(func(o vfs.Op, name string) error {
					if o == op && strings.HasSuffix(name, "t-0/00000000000000000000.log") {
						return unix.EIO
					}
					return nil
				})
				r := produceTo("t", 0, -1, batchOf(t, record.None, now(), "x"))
				r.Version = 9
				m, err := c.Exchange(t.Context(), r)
				if err == nil && m.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 {
					t.Error("acknowledged what could not be written")
				}
				synctest.Wait()
				select {
				case err := <-b.Failed():
					if !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "t-0") {
						t.Errorf("failed with %v: want the error and the path", err)
					}
				default:
					t.Fatal("the broker goes on")
				}
				if b.Ready() == nil {
					t.Error("a failed broker says it is ready")
				}
				disk.Inject(nil)
				if _, err := c.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err == nil {
					t.Error("a failed broker answers")
				}
			})
		})
	}
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	onDisk(t, func(t *testing.T, disk *vfs.Mem, b *broker.Broker, c *wire.Conn) {
		createTopic(t, c, "t", 1)
		if got := put(t, c, "t", batchOf(t, record.None, now(), "first")); got.ErrorCode != 0 {
			t.Fatal(got.ErrorCode)
		}
		var full atomic.Bool
		full.Store(true)
		disk.Inject(func(op vfs.Op, name string) error {
			if full.Load() && (op == vfs.OpAllocate || op == vfs.OpWrite) && strings.Contains(name, "t-0/") {
				return unix.ENOSPC
			}
			return nil
		})
		big := strings.Repeat("x", 1<<20-100)
		refused := 0
		for range 80 { // more than was reserved
			switch got := put(t, c, "t", batchOf(t, record.None, now(), big)); got.ErrorCode {
			case 0:
			case kerr.KafkaStorageError.Code:
				refused++
			default:
				t.Fatalf("code %d", got.ErrorCode)
			}
		}
		if refused == 0 {
			t.Fatal("nothing was refused")
		}
		if got := get(t, c, "t", 0); got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
			t.Errorf("read on a full disk: code %d", got.ErrorCode)
		}
		full.Store(false)
		time.Sleep(time.Second) // how often room is looked for
		if got := put(t, c, "t", batchOf(t, record.None, now(), "again")); got.ErrorCode != 0 {
			t.Errorf("with room again: code %d %s", got.ErrorCode, deref(got.ErrorMessage))
		}
		if err := b.Ready(); err != nil {
			t.Errorf("a full disk ended the broker: %v", err)
		}
	})
}

func TestTopicMadeOnAFullDiskWorksLater(t *testing.T) {
	onDisk(t, func(t *testing.T, disk *vfs.Mem, b *broker.Broker, c *wire.Conn) {
		var full atomic.Bool
		full.Store(true)
		disk.Inject(func(op vfs.Op, name string) error {
			if full.Load() && op != vfs.OpOpen && op != vfs.OpStat && strings.Contains(name, "/late-1") {
				return unix.ENOSPC
			}
			return nil
		})
		createTopic(t, c, "late", 3)
		produce := func(partition int32) int16 {
			r := produceTo("late", partition, -1, batchOf(t, record.None, now(), "x"))
			return askAt[*kmsg.ProduceResponse](t, c, 9, r).Topics[0].Partitions[0].ErrorCode
		}
		if code := produce(0); code != 0 {
			t.Errorf("a partition with room: code %d", code)
		}
		if code := produce(1); code != kerr.NotLeaderForPartition.Code {
			t.Errorf("a partition without: code %d", code)
		}
		full.Store(false)
		time.Sleep(time.Minute)
		if code := produce(1); code != 0 {
			t.Errorf("with room again: code %d", code)
		}
		if err := b.Ready(); err != nil {
			t.Error(err)
		}
	})
}

func TestUnknownFoldersAreSetAside(t *testing.T) {
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	c := wireClient(t, b)
	createTopic(t, c, "known", 1)
	if got := put(t, c, "known", batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	brokertest.Stop(t, b)
	if err := os.CopyFS(filepath.Join(dir, "ghost-0"), os.DirFS(filepath.Join(dir, "known-0"))); err != nil {
		t.Fatal(err)
	}
	other := "version: 0\ntopic_id: " + offsets.TopicID{1, 2, 3}.String() + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ghost-0", "partition.metadata"), []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	b = brokertest.Start(t, in)
	c = wireClient(t, b)
	if got := topicNames(t, c); got != "known" {
		t.Errorf("topics %q", got)
	}
	if end := listed(t, c, "known", -1); end.Offset != 1 {
		t.Errorf("known: end %d", end.Offset)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ghosts []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ghost-0") {
			ghosts = append(ghosts, e.Name())
		}
	}
	if len(ghosts) != 1 || !strings.Contains(ghosts[0], "stray") {
		t.Errorf("the unknown folder is now %v", ghosts)
	}
}

// TestFolderOfAnEarlierTopic: the process died between the deletion of a topic
// and that of its folder, and the name was used again.
func TestFolderOfAnEarlierTopic(t *testing.T) {
	dir := t.TempDir()
	in := func(c *broker.Config) { c.Dir = dir }
	b := brokertest.Start(t, in)
	c := wireClient(t, b)
	createTopic(t, c, "name", 1)
	if got := put(t, c, "name", batchOf(t, record.None, now(), "new")); got.ErrorCode != 0 {
		t.Fatal(got.ErrorCode)
	}
	brokertest.Stop(t, b)
	old := "version: 0\ntopic_id: " + offsets.TopicID{9}.String() + "\n"
	if err := os.WriteFile(filepath.Join(dir, "name-0", "partition.metadata"), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	c = wireClient(t, brokertest.Start(t, in))
	if end := listed(t, c, "name", -1); end.ErrorCode != 0 || end.Offset != 0 {
		t.Errorf("the topic took over another one's records: %+v", end)
	}
	if got := put(t, c, "name", batchOf(t, record.None, now(), "x")); got.ErrorCode != 0 || got.BaseOffset != 0 {
		t.Errorf("append: %+v", got)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, "name-0*stray*")); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v %v", aside, err)
	}
}

// TestPowerLossKeepsWhatWasFlushed: with flush.messages 1 an acknowledgement
// outlives the power, and a batch sent again after it isn't doubled.
func TestPowerLossKeepsWhatWasFlushed(t *testing.T) {
	for seed := range uint64(10) {
		onDisk(t, func(t *testing.T, disk *vfs.Mem, b *broker.Broker, c *wire.Conn) {
			createTopic(t, c, "t", 1, "flush.messages", "1")
			id := ask[*kmsg.InitProducerIDResponse](t, c, kmsg.NewPtrInitProducerIDRequest()).ProducerID
			send := func(c *wire.Conn, seq int32) kmsg.ProduceResponseTopicPartition {
				w := record.NewBuilder(record.None, 0)
				w.Producer(id, 0, seq)
				w.Append(record.Record{Timestamp: now(), Value: []byte{byte(seq)}})
				batch, err := w.Batch()
				if err != nil {
					t.Fatal(err)
				}
				return put(t, c, "t", batch)
			}
			for seq := range int32(12) {
				if got := send(c, seq); got.ErrorCode != 0 {
					t.Fatal(got.ErrorCode)
				}
			}
			network := brokertest.NewNetwork()
			after := brokertest.Start(t, func(c *broker.Config) {
				c.FS, c.Dir, c.Listener, c.Advertise = disk.CrashClone(rand.New(rand.NewPCG(seed, 1))), "/data", network, "broker:9092"
			})
			nc, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			again, err := wire.NewConn(t.Context(), nc, "again")
			if err != nil {
				t.Fatal(err)
			}
			if end := listed(t, again, "t", -1); end.Offset != 12 {
				t.Errorf("seed %d: %d of 12 acknowledged records are left, %v", seed, end.Offset, end.ErrorCode)
			}
			if got := send(again, 11); got.ErrorCode != 0 || got.BaseOffset != 11 {
				t.Errorf("seed %d: the last batch again: %+v", seed, got)
			}
			if got := send(again, 12); got.ErrorCode != 0 || got.BaseOffset != 12 {
				t.Errorf("seed %d: the next batch: %+v", seed, got)
			}
			_ = again.Close() // before its broker, or after: both are fine
			brokertest.Stop(t, after)
		})
	}
}
