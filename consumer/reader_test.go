package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
	"sawlog/offsets"
)

var views = offsets.TopicPartition{Topic: "views", Partition: 0}

// drain reads a range to its end and gives the offsets of its records.
func drain(t *testing.T, c Cluster, r offsets.Range, o Options) ([]offsets.Offset, Counts, error) {
	t.Helper()
	rd := NewReader(c, views, offsets.TopicID{1, 2, 3}, r, o)
	defer rd.Close()
	var got []offsets.Offset
	for {
		rec, err := rd.Next(t.Context())
		if err == io.EOF {
			if rd.Position() != r.End {
				t.Errorf("position at the end is %d, want %d", rd.Position(), r.End)
			}
			n := rd.Counts()
			if sum := n.Data + n.Control + n.Aborted + n.Compacted + n.Gap; sum != r.Len() {
				t.Errorf("counts %+v add up to %d, want %d", n, sum, r.Len())
			}
			if n.Data != int64(len(got)) {
				t.Errorf("counted %d records, returned %d", n.Data, len(got))
			}
			return got, n, nil
		}
		if err != nil {
			if _, again := rd.Next(t.Context()); again == nil || again.Error() != err.Error() {
				t.Errorf("after error %v Next gave %v", err, again)
			}
			return got, rd.Counts(), err
		}
		got = append(got, rec.Offset)
	}
}

func span(from, to offsets.Offset) []offsets.Offset {
	var out []offsets.Offset
	for o := from; o < to; o++ {
		out = append(out, o)
	}
	return out
}

func rng(from, to offsets.Offset) offsets.Range { return offsets.Range{Start: from, End: to} }

func TestReaderReadsExactlyTheRange(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		c, log := newFake("delete")
		for i := range 20 {
			log.add(records(t, 10, codec), offsets.Offset(10*i))
		}
		for _, r := range []offsets.Range{rng(0, 200), rng(5, 6), rng(7, 193), rng(10, 20), rng(199, 200), rng(0, 1), rng(50, 50)} {
			for _, fetch := range []int{1, 300, 1 << 20} {
				t.Run(fmt.Sprintf("%v %v fetch %d", codec, r, fetch), func(t *testing.T) {
					got, n, err := drain(t, c, r, Options{FetchBytes: fetch})
					if err != nil {
						t.Fatal(err)
					}
					if want := span(r.Start, r.End); !slices.Equal(got, want) {
						t.Errorf("offsets %v, want %v", got, want)
					}
					if want := (Counts{Data: r.Len()}); n != want {
						t.Errorf("counts %+v, want %+v", n, want)
					}
				})
			}
		}
	}
}

func TestReaderKeepsRecordBytes(t *testing.T) {
	c, log := newFake("delete")
	w := record.NewBuilder(record.Zstd, record.DefaultLevel)
	w.Append(record.Record{Timestamp: -1, Key: nil, Value: []byte("")})
	w.Append(record.Record{Timestamp: 5, Key: []byte(""), Value: nil, Headers: []record.Header{{Key: []byte("h")}, {Key: []byte("h"), Value: []byte("2")}}})
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	log.add(b, 0)
	rd := NewReader(c, views, offsets.TopicID{1, 2, 3}, rng(0, 2), Options{})
	defer rd.Close()
	first, err := rd.Next(t.Context())
	if err != nil || first.Key != nil || first.Value == nil || len(first.Value) != 0 || first.Timestamp != -1 {
		t.Errorf("first record %+v, %v: want null key, empty value, time -1", first, err)
	}
	second, err := rd.Next(t.Context())
	if err != nil || second.Key == nil || second.Value != nil || len(second.Headers) != 2 || second.Headers[0].Value != nil || string(second.Headers[1].Value) != "2" {
		t.Errorf("second record %+v, %v", second, err)
	}
}

// Four transactions, each a data batch and a commit marker, and an aborted one
// at the very end (offsets 0,2,4,6 are data).
func TestReaderTransactions(t *testing.T) {
	c, log := newFake("delete")
	for i := range 4 {
		log.add(records(t, 1, record.None, transactional(7)), offsets.Offset(2*i))
		log.add(marker(t, true, 7), offsets.Offset(2*i+1))
	}
	got, n, err := drain(t, c, rng(0, 8), Options{})
	if err != nil || !slices.Equal(got, []offsets.Offset{0, 2, 4, 6}) || n != (Counts{Data: 4, Control: 4}) {
		t.Fatalf("offsets %v counts %+v: %v", got, n, err)
	}

	log.add(records(t, 3, record.Zstd, transactional(8)), 8) // aborted
	log.add(records(t, 2, record.None), 11)                  // another producer's, no transaction
	log.add(records(t, 2, record.None, transactional(9)), 13)
	log.add(marker(t, false, 8), 15)
	log.add(marker(t, true, 9), 16)
	log.add(records(t, 2, record.None, transactional(8)), 17) // its next transaction, committed
	log.add(marker(t, true, 8), 19)
	log.add(records(t, 1, record.None, transactional(8)), 20)
	log.add(marker(t, false, 8), 21) // the log ends with a marker
	log.aborted = []abortedTxn{{8, 8, 15}, {8, 20, 21}}
	for _, fetch := range []int{1, 1 << 20} {
		got, n, err = drain(t, c, rng(8, 22), Options{FetchBytes: fetch})
		if err != nil || !slices.Equal(got, []offsets.Offset{11, 12, 13, 14, 17, 18}) || n != (Counts{Data: 6, Control: 4, Aborted: 4}) {
			t.Errorf("fetch %d: offsets %v counts %+v: %v", fetch, got, n, err)
		}
	}
	got, n, err = drain(t, c, rng(9, 22), Options{Isolation: ReadUncommitted})
	if err != nil || len(got) != 9 || n != (Counts{Data: 9, Control: 4}) {
		t.Errorf("uncommitted: offsets %v counts %+v: %v", got, n, err)
	}
	// A range that starts inside the aborted batch and ends before its marker.
	got, n, err = drain(t, c, rng(10, 12), Options{FetchBytes: 1})
	if err != nil || !slices.Equal(got, []offsets.Offset{11}) || n != (Counts{Data: 1, Aborted: 1}) {
		t.Errorf("inside: offsets %v counts %+v: %v", got, n, err)
	}
}

func TestReaderCompactionHoles(t *testing.T) {
	build := func(policy string) *fakeCluster {
		c, log := newFake(policy)
		log.add(compacted(t, 9, 2, 5), 0)  // holes before, between and after
		log.add(compacted(t, 4), 10)       // emptied batch
		log.add(compacted(t, 3, 0, 3), 20) // after a hole between batches
		log.add(records(t, 2, record.None), 40)
		return c
	}
	got, n, err := drain(t, build("compact,delete"), rng(0, 42), Options{Compact: true})
	if err != nil || !slices.Equal(got, []offsets.Offset{2, 5, 20, 23, 40, 41}) || n != (Counts{Data: 6, Compacted: 36}) {
		t.Errorf("offsets %v counts %+v: %v", got, n, err)
	}
	got, n, err = drain(t, build("compact"), rng(3, 30), Options{Compact: true, FetchBytes: 1})
	if err != nil || !slices.Equal(got, []offsets.Offset{5, 20, 23}) || n != (Counts{Data: 3, Compacted: 24}) {
		t.Errorf("range that ends in a hole: offsets %v counts %+v: %v", got, n, err)
	}
	// On a topic that is not compacted, holes inside a batch are allowed, others not.
	if _, n, err = drain(t, build("delete"), rng(0, 15), Options{}); err != nil || n != (Counts{Data: 2, Compacted: 13}) {
		t.Errorf("inside batches: counts %+v: %v", n, err)
	}
	_, _, err = drain(t, build("delete"), rng(0, 42), Options{})
	var hole *HoleError
	if !errors.As(err, &hole) || hole.Hole != rng(15, 20) {
		t.Errorf("between batches: %v, want a hole at 15..20", err)
	}
	_, _, err = drain(t, build("delete"), rng(20, 35), Options{})
	if !errors.As(err, &hole) || hole.Hole != rng(24, 35) {
		t.Errorf("at the end: %v, want a hole at 24..35", err)
	}
}

// All that was left below the end is gone, and what follows is not yet stable:
// a committed read sees nothing, and looks past the last stable offset.
func TestReaderEndInHoleBelowOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newFake("compact")
		log.add(records(t, 2, record.None), 0)
		log.add(records(t, 2, record.None, transactional(3)), 10)
		log.stable = 10
		got, n, err := drain(t, c, rng(0, 9), Options{Compact: true})
		if err != nil || len(got) != 2 || n != (Counts{Data: 2, Compacted: 7}) {
			t.Errorf("offsets %v counts %+v: %v", got, n, err)
		}
	})
}

func TestReaderGap(t *testing.T) {
	c, log := newFake("delete")
	log.add(records(t, 50, record.None), 100)
	log.start = 100
	_, _, err := drain(t, c, rng(40, 150), Options{})
	var gap *GapError
	if !errors.As(err, &gap) || gap.Asked != 40 || gap.LogStart != 100 {
		t.Fatalf("%v, want a gap 40..100", err)
	}
	got, n, err := drain(t, c, rng(40, 150), Options{AcceptGap: true})
	if err != nil || len(got) != 50 || n != (Counts{Data: 50, Gap: 60}) {
		t.Errorf("accepted: counts %+v: %v", n, err)
	}
	got, n, err = drain(t, c, rng(40, 90), Options{AcceptGap: true})
	if err != nil || len(got) != 0 || n != (Counts{Gap: 50}) {
		t.Errorf("all gone: counts %+v: %v", n, err)
	}
}

// Retention passes the position while the range is being read.
func TestReaderGapDuringTheRun(t *testing.T) {
	c, log := newFake("delete")
	for i := range 10 {
		log.add(records(t, 10, record.None), offsets.Offset(10*i))
	}
	c.onFetch = func(n int, _ *kmsg.FetchRequest, _ *kmsg.FetchResponseTopicPartition) {
		if n == 3 {
			log.start, log.batches = 70, log.batches[7:]
		}
	}
	got, _, err := drain(t, c, rng(0, 100), Options{FetchBytes: 1})
	var gap *GapError
	if !errors.As(err, &gap) || gap.Asked != 30 || gap.LogStart != 70 {
		t.Errorf("%v, want a gap 30..70", err)
	}
	if !slices.Equal(got, span(0, 30)) {
		t.Errorf("before the gap came %v", got)
	}
}

func TestReaderShortLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newFake("delete")
		log.add(records(t, 5, record.None), 0)
		_, _, err := drain(t, c, rng(8, 20), Options{})
		var short *ShortError
		if !errors.As(err, &short) || short.Asked != 8 || short.LogEnd != 5 {
			t.Errorf("%v, want a short log", err)
		}
	})
}

// TestReaderDoubts: a broker that was cut off takes itself for the leader, or
// doesn't know a topic that was made meanwhile. What it says is no reason to give
// a range up as long as another may say better.
func TestReaderDoubts(t *testing.T) {
	for name, cutOff := range map[string]func(c *fakeCluster, log *fakeLog){
		"short":   func(_ *fakeCluster, log *fakeLog) { log.end, log.stable = 5, 5 },
		"unknown": func(c *fakeCluster, _ *fakeLog) { c.topics[0].name = "others" },
		"another": func(c *fakeCluster, _ *fakeLog) { c.topics[0].id = offsets.TopicID{7} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, log := newFake("delete")
				for i := range 10 {
					log.add(records(t, 10, record.None), offsets.Offset(10*i))
				}
				c.brokers, c.down[2], c.down[3] = []int32{2, 3}, true, true // nobody else answers
				topic, whole := *c.topics[0], *log
				cutOff(c, log)
				time.AfterFunc(5*time.Second, func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					*c.topics[0], *log = topic, whole
				})
				got, _, err := drain(t, c, rng(20, 100), Options{FetchBytes: 1})
				if err != nil || !slices.Equal(got, span(20, 100)) {
					t.Errorf("offsets %v: %v", got, err)
				}
			})
		})
	}
}

func TestReaderFollowsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newFake("delete")
		for i := range 10 {
			log.add(records(t, 10, record.None), offsets.Offset(10*i))
		}
		c.onFetch = func(n int, _ *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition) {
			switch n {
			case 2: // the next answer comes from a broker that no longer leads
				c.leader, c.epoch = 2, 4
			case 5:
				p.ErrorCode, p.RecordBatches = kerr.UnknownTopicID.Code, nil
			case 7:
				p.ErrorCode, p.RecordBatches = kerr.OffsetNotAvailable.Code, nil
			case 8:
				p.RecordBatches = []byte{} // a leader whose high watermark lags
			}
		}
		got, _, err := drain(t, c, rng(0, 100), Options{FetchBytes: 1})
		if err != nil || !slices.Equal(got, span(0, 100)) {
			t.Errorf("offsets %v: %v", got, err)
		}
	})
}

// TestReaderSurvivesFailovers: every kind of refusal that a cluster gives while
// leaders move, in the middle of a range, and connections that break: each
// record comes once, in order.
func TestReaderSurvivesFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newFake("delete")
		for i := range 40 {
			log.add(records(t, 10, record.None), offsets.Offset(10*i))
		}
		codes := []int16{
			kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code, kerr.OffsetNotAvailable.Code,
			kerr.LeaderNotAvailable.Code, kerr.ReplicaNotAvailable.Code, kerr.KafkaStorageError.Code, kerr.UnknownTopicOrPartition.Code,
		}
		c.onFetch = func(n int, _ *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition) {
			switch {
			case n%3 == 0:
				p.ErrorCode, p.RecordBatches = codes[n/3%len(codes)], nil
			case n%7 == 0: // the leader dies, another one is elected a second later
				c.down[c.leader] = true
				time.AfterFunc(time.Second, func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.down = map[int32]bool{}
					c.leader, c.epoch = c.leader%3+1, c.epoch+1
				})
			}
		}
		got, counts, err := drain(t, c, rng(5, 395), Options{FetchBytes: 1})
		if err != nil || !slices.Equal(got, span(5, 395)) || counts.Data != 390 {
			t.Errorf("%d offsets, counts %+v: %v", len(got), counts, err)
		}
		if c.epoch < 5 {
			t.Errorf("only %d elections", c.epoch-3)
		}
	})
}

// TestReaderCutLog: a log that was cut off below what was read is told by the
// epoch of what was read, before anything of the other log is served.
func TestReaderCutLog(t *testing.T) {
	c, log := newFake("delete")
	for i := range 4 {
		log.add(records(t, 10, record.None), offsets.Offset(10*i))
	}
	c.onFetch = func(n int, req *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition) {
		if last := req.Topics[0].Partitions[0].LastFetchedEpoch; last != map[bool]int32{true: -1, false: 3}[n == 1] {
			t.Errorf("fetch %d names epoch %d as the last one read", n, last)
		}
		if n == 3 {
			p.RecordBatches, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = nil, 3, 15
		}
	}
	got, _, err := drain(t, c, rng(0, 40), Options{FetchBytes: 1})
	var cut *CutError
	if !errors.As(err, &cut) || cut.At != 20 || cut.Epoch != 3 || cut.End != 15 || !slices.Equal(got, span(0, 20)) {
		t.Errorf("after %d records: %v", len(got), err)
	}
}

// rackedCluster is a cluster of which the client knows its rack.
type rackedCluster struct{ *fakeCluster }

func (rackedCluster) Rack() string { return "r" }

// TestReaderNearReplica: the leader sends the reader to a replica nearby; when
// that one fails, the leader is read from again, and asked for another later.
func TestReaderNearReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newFake("delete")
		for i := range 30 {
			log.add(records(t, 10, record.None), offsets.Offset(10*i))
		}
		near, far := 0, 0
		c.follower = 3
		c.onFetch = func(n int, req *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition) {
			switch {
			case c.asked == 3 && near == 5:
				p.ErrorCode, p.RecordBatches = kerr.OffsetOutOfRange.Code, nil
				near++
			case c.asked == 3 && near == 12: // it was wiped, say: only the leader knows that nothing was cut off
				p.RecordBatches, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = nil, 3, 0
				near++
			case c.asked == 3:
				near++
			case req.Rack == "r":
				p.RecordBatches, p.PreferredReadReplica = nil, 3
			default:
				far++
				time.Sleep(time.Second)
			}
		}
		got, _, err := drain(t, rackedCluster{c}, rng(0, 300), Options{FetchBytes: 1})
		if err != nil || !slices.Equal(got, span(0, 300)) {
			t.Errorf("%d offsets: %v", len(got), err)
		}
		if far < 8 || far > 12 || near < 16 {
			t.Errorf("%d fetches from the replica nearby, %d from the leader", near, far)
		}
	})
}

func TestReaderGivesUpOnADeadLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := newFake("delete")
		log.add(records(t, 10, record.None), 0)
		c.down[1] = true
		began := time.Now()
		_, _, err := drain(t, c, rng(0, 10), Options{Patience: 20 * time.Second})
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v, want unavailable", err)
		}
		if took := time.Since(began); took > 21*time.Second || took < 10*time.Second {
			t.Errorf("gave up after %v, want about 20 s", took)
		}
	})
}

func TestReaderTruncatedTail(t *testing.T) {
	c, log := newFake("delete")
	for i := range 10 {
		log.add(records(t, 10, record.None), offsets.Offset(10*i))
	}
	big := records(t, 5000, record.None)
	log.add(big, 100)
	// As brokers that send pieces of files: cut off at the size asked for.
	c.onFetch = func(_ int, req *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition) {
		p.RecordBatches = p.RecordBatches[:min(len(p.RecordBatches), int(req.MaxBytes))]
	}
	for _, fetch := range []int{7, 200, 1000} {
		got, _, err := drain(t, c, rng(0, 5100), Options{FetchBytes: fetch})
		if err != nil || !slices.Equal(got, span(0, 5100)) {
			t.Errorf("fetch %d: %d offsets: %v", fetch, len(got), err)
		}
	}
	_, _, err := drain(t, c, rng(0, 5100), Options{FetchBytes: 200, MaxBatchBytes: 2000})
	var over *OversizeError
	if !errors.As(err, &over) || over.Offset != 100 || over.Bytes < int64(len(big)) {
		t.Errorf("%v, want the batch at 100 too large", err)
	}
}

func TestReaderCorruptBatch(t *testing.T) {
	c, log := newFake("delete")
	for i := range 4 {
		log.add(records(t, 10, record.None), offsets.Offset(10*i))
	}
	spoil := func(b []byte) { // the second batch of the answer
		if first, rest, err := record.Split(b); err == nil && len(rest) > 0 && first.BaseOffset() == 10 {
			rest[len(rest)-len(log.batches[3])-3] ^= 1
		}
	}
	bad := 0
	c.onFetch = func(n int, _ *kmsg.FetchRequest, p *kmsg.FetchResponseTopicPartition) {
		if n == 1 {
			p.RecordBatches = slices.Clone(p.RecordBatches[:len(log.batches[0])])
			return
		}
		if bad > 0 {
			bad--
			p.RecordBatches = slices.Clone(p.RecordBatches)
			spoil(p.RecordBatches)
		}
	}
	bad = 1 // once, on the way
	got, _, err := drain(t, c, rng(0, 40), Options{})
	if err != nil || !slices.Equal(got, span(0, 40)) {
		t.Errorf("damaged once: %v: %v", got, err)
	}
	bad, c.fetches = 1000, 0
	_, _, err = drain(t, c, rng(0, 40), Options{})
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != 20 || !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("%v, want the batch at offset 20", err)
	}
}

// The CRC is right, the records inside are not.
func TestReaderCorruptRecords(t *testing.T) {
	c, log := newFake("delete")
	log.add(records(t, 3, record.None), 0)
	b := records(t, 3, record.None)
	binary.BigEndian.PutUint32(b[57:], 7)
	b.SetMaxTimestamp(1, false)
	log.add(b, 3)
	_, _, err := drain(t, c, rng(0, 6), Options{})
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || corrupt.Offset != 6 && corrupt.Offset != 3 {
		t.Errorf("%v, want corrupt records at 3", err)
	}
}

func TestReaderStopsWhenAsked(t *testing.T) {
	c, log := newFake("delete")
	log.add(records(t, 10, record.None), 0)
	ctx, cancel := context.WithCancel(t.Context())
	rd := NewReader(c, views, offsets.TopicID{1, 2, 3}, rng(0, 10), Options{})
	defer rd.Close()
	if _, err := rd.Next(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 20 {
		if _, err := rd.Next(ctx); err != nil {
			return
		}
	}
}

func TestReaderAllocatesNothingPerRecord(t *testing.T) {
	c, log := newFake("delete")
	for i := range 40 {
		log.add(records(t, 1000, record.None), offsets.Offset(1000*i))
	}
	per := testing.AllocsPerRun(5, func() {
		if _, n, err := drainQuietly(t, c, rng(0, 40000)); err != nil || n != 40000 {
			t.Fatal(n, err)
		}
	})
	if per > 400 { // per run of 40,000 records; the rest is one fetch and its answer
		t.Errorf("%v allocations for 40,000 records", per)
	}
}

func drainQuietly(t *testing.T, c Cluster, r offsets.Range) (Counts, int, error) {
	rd := NewReader(c, views, offsets.TopicID{1, 2, 3}, r, Options{})
	defer rd.Close()
	for n := 0; ; n++ {
		if _, err := rd.Next(t.Context()); err == io.EOF {
			return rd.Counts(), n, nil
		} else if err != nil {
			return rd.Counts(), n, err
		}
	}
}

// TestReaderBesideLeaderless: a partition without a leader holds up its own
// readers, and who wants to know all of the topic, but not readers of the others.
func TestReaderBesideLeaderless(t *testing.T) {
	c, log := newFake("delete")
	log.add(records(t, 10, record.None), 0)
	c.topics[0].partitions = append(c.topics[0].partitions, &fakeLog{})
	c.leaderless = map[int32]bool{1: true}
	synctest.Test(t, func(t *testing.T) {
		if got, _, err := drain(t, c, offsets.Range{Start: 0, End: 10}, Options{}); err != nil || len(got) != 10 {
			t.Errorf("%d records, %v", len(got), err)
		}
		rd := NewReader(c, offsets.TopicPartition{Topic: "views", Partition: 1}, offsets.TopicID{1, 2, 3}, offsets.Range{Start: 0, End: 1}, Options{Patience: time.Second})
		defer rd.Close()
		if _, err := rd.Next(t.Context()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, kerr.LeaderNotAvailable) {
			t.Errorf("of the partition itself: %v", err)
		}
		if _, _, err := Describe(t.Context(), c, []string{"views"}, ""); !errors.Is(err, kerr.LeaderNotAvailable) {
			t.Errorf("of the topic: %v", err)
		}
	})
}
