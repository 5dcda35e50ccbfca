package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/replica"
	"sawlog/broker/vfs"
	"sawlog/broker/wire"
	"sawlog/offsets"
)

func TestVersionTableAgreesWithTheCodec(t *testing.T) {
	for _, a := range apis {
		r := kmsg.RequestForKey(a.key)
		if r == nil {
			t.Fatalf("key %d is unknown to kmsg", a.key)
		}
		if a.max > r.MaxVersion() || a.min > a.max {
			t.Errorf("key %d: versions %d–%d, kmsg knows up to %d", a.key, a.min, a.max, r.MaxVersion())
		}
		for v := a.min; v <= a.max; v++ {
			r.SetVersion(v)
			if r.IsFlexible() != (v >= a.flexible) {
				t.Errorf("key %d version %d: flexible is %v", a.key, v, r.IsFlexible())
			}
		}
	}
}

func TestNothingUnservedIsAdvertised(t *testing.T) {
	// Transactions and the groups of KIP-848 are not served.
	for _, key := range []int16{4, 5, 6, 7, 24, 25, 26, 28, 68, 69, 76, 78} {
		if _, ok := findAPI(key); ok {
			t.Errorf("key %d is advertised", key)
		}
	}
}

// exchange runs one request through a handler over a connection in memory and
// returns the reply's body after its header.
func exchange(t *testing.T, h wire.Handler, key, version int16, body []byte, flexible bool) []byte {
	t.Helper()
	s := wire.NewServer(wire.Config{Handler: h, Rules: rules})
	client, server := net.Pipe()
	s.ServeConn(server)
	defer func() {
		_ = client.Close() // first, so that the server need not wait
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	r := kmsg.RequestForKey(key)
	r.SetVersion(version)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, rawRequest{r, body}, 5)
	go func() { _, _ = client.Write(frame) }()
	head := make([]byte, 4)
	if _, err := io.ReadFull(client, head); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, int(head[0])<<24|int(head[1])<<16|int(head[2])<<8|int(head[3]))
	if _, err := io.ReadFull(client, reply); err != nil {
		t.Fatal(err)
	}
	if flexible {
		return reply[5:]
	}
	return reply[4:]
}

// rawRequest is a request whose body is given as bytes.
type rawRequest struct {
	kmsg.Request
	body []byte
}

func (r rawRequest) AppendTo(dst []byte) []byte { return append(dst, r.body...) }

// serveFunc is a wire.Handler.
type serveFunc func(*wire.Exchange)

func (f serveFunc) Serve(e *wire.Exchange) { f(e) }

// randomFetch makes a state as it is when the reply is due, and the same reply
// for kmsg.
func randomFetch(rnd *rand.Rand, f vfs.File, content []byte, version int16) (*fetchState, *kmsg.FetchResponse) {
	st := &fetchState{version: version, isolation: int8(rnd.IntN(2))}
	m := kmsg.NewPtrFetchResponse()
	m.Version = version
	if version >= 7 && rnd.IntN(5) == 0 {
		st.code = kerr.FetchSessionIDNotFound.Code
		m.ErrorCode = st.code
	}
	codes := []int16{0, 0, 0, 0, kerr.OffsetOutOfRange.Code, kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownTopicOrPartition.Code}
	for range rnd.IntN(4) {
		name := string(content[:rnd.IntN(40)])
		id := offsets.TopicID(content[rnd.IntN(100):][:16])
		ft := fetchedTopic{name: []byte(name), id: id}
		mt := kmsg.NewFetchResponseTopic()
		mt.Topic, mt.TopicID = name, id
		for range 1 + rnd.IntN(3) {
			part := fetchedPartition{index: rnd.Int32(), code: codes[rnd.IntN(len(codes))], replica: &replica.Partition{}}
			if part.code == kerr.UnknownTopicOrPartition.Code {
				part.replica = nil
			}
			mp := kmsg.NewFetchResponseTopicPartition()
			mp.Partition, mp.ErrorCode = part.index, part.code
			mp.HighWatermark, mp.LastStableOffset, mp.LogStartOffset = -1, -1, -1
			if st.isolation == 1 {
				mp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
			mp.RecordBatches = []byte{}
			v := replica.View{HighWatermark: offsets.Offset(rnd.Int64()), LastStable: offsets.Offset(rnd.Int64()), LogStart: offsets.Offset(rnd.Int64()), Leader: 3, Epoch: offsets.Epoch(rnd.Int32())}
			part.got.View = v
			if part.code == 0 {
				mp.HighWatermark, mp.LastStableOffset, mp.LogStartOffset = int64(v.HighWatermark), int64(v.LastStable), int64(v.LogStart)
			}
			if part.code == 0 {
				for range rnd.IntN(3) {
					pos, n := rnd.IntN(1000), rnd.IntN(40000)
					part.got.Regions = append(part.got.Regions, vfs.Region{File: f, Pos: int64(pos), Len: int64(n)})
					part.got.Bytes += n
					mp.RecordBatches = append(mp.RecordBatches, content[pos:pos+n]...)
				}
				if version >= fetchFlexible && rnd.IntN(3) == 0 {
					part.got.Diverging = &replica.EpochEnd{Epoch: 5, End: 77}
					mp.DivergingEpoch.Epoch, mp.DivergingEpoch.EndOffset = 5, 77
				}
			}
			if st.hints(&part) && version >= fetchFlexible {
				mp.CurrentLeader.LeaderID, mp.CurrentLeader.LeaderEpoch = 3, int32(v.Epoch)
				if version >= fetchLeaders {
					m.Brokers = []kmsg.FetchResponseBroker{{NodeID: 3, Host: "three.example", Port: 9093}}
				}
			}
			ft.parts = append(ft.parts, part)
			mt.Partitions = append(mt.Partitions, mp)
		}
		st.topics = append(st.topics, ft)
		m.Topics = append(m.Topics, mt)
	}
	return st, m
}

func TestFetchReplyIsKafkas(t *testing.T) {
	b := brokerWithImage(t)
	content := make([]byte, 64<<10)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte('a' + rnd.IntN(26))
	}
	f := memFile(t, content)
	for version := int16(4); version <= 18; version++ {
		for shape := range 40 {
			st, want := randomFetch(rnd, f, content, version)
			st.broker = b
			got := exchange(t, serveFunc(func(e *wire.Exchange) {
				st.exchange = e
				r, err := st.encode()
				if err != nil {
					t.Error(err)
				}
				e.ReplyPieces(r)
			}), keyFetch, version, nil, version >= fetchFlexible)
			if !bytes.Equal(got, want.AppendTo(nil)) {
				t.Fatalf("version %d shape %d:\n got %q\nwant %q", version, shape, got, want.AppendTo(nil))
			}
		}
	}
}

func memFile(t *testing.T, content []byte) vfs.File {
	t.Helper()
	f, err := vfs.NewMem().OpenFile("/f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

// brokerWithImage is a broker that only knows a cluster of one node, the third.
func brokerWithImage(t *testing.T) *Broker {
	t.Helper()
	c, err := controller.Open(t.Context(), controller.Config{FS: vfs.NewMem(), Dir: "/d", NodeID: 3, Directory: controller.UUID{2}, ClusterID: "cluster-for-this-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	_, err = c.RegisterBroker(t.Context(), controller.Registration{
		ID: 3, Incarnation: controller.UUID{1}, Directory: controller.UUID{2},
		Endpoints: []controller.Endpoint{{Listener: clientListener, Host: "three.example", Port: 9093}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Broker{controller: c}
}

func TestFetchRequestIsReadAsKmsgDoes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for version := int16(4); version <= 18; version++ {
		for range 50 {
			r := randomFetchRequest(rnd, version)
			body := r.AppendTo(nil)
			want := kmsg.NewPtrFetchRequest()
			want.Version = version
			if err := want.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			st := &fetchState{}
			if err := st.decode(version, body); err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
			replicaID := want.ReplicaID
			if version >= fetchReplicaState {
				replicaID = want.ReplicaState.ID
			}
			if st.replica != replicaID || st.maxWait != want.MaxWaitMillis || st.minBytes != want.MinBytes || st.maxBytes != want.MaxBytes ||
				st.isolation != want.IsolationLevel || st.sessionID != want.SessionID || st.sessionEpoch != want.SessionEpoch || len(st.topics) != len(want.Topics) {
				t.Fatalf("version %d: read %+v, want %+v", version, st, want)
			}
			var forgotten []forgottenPart
			for _, f := range want.ForgottenTopics {
				for _, index := range f.Partitions {
					forgotten = append(forgotten, forgottenPart{f.TopicID, []byte(f.Topic), index})
				}
			}
			if fmt.Sprint(st.forgotten) != fmt.Sprint(forgotten) {
				t.Fatalf("version %d: forgotten %v, want %v", version, st.forgotten, forgotten)
			}
			for i, wt := range want.Topics {
				got := st.topics[i]
				if string(got.name) != wt.Topic || version >= fetchIDs && got.id != wt.TopicID || len(got.parts) != len(wt.Partitions) {
					t.Fatalf("version %d topic %d: %q %v", version, i, got.name, got.id)
				}
				for j, wp := range wt.Partitions {
					p := got.parts[j]
					if p.index != wp.Partition || p.epoch != wp.CurrentLeaderEpoch || p.offset != wp.FetchOffset || p.lastEpoch != wp.LastFetchedEpoch || p.maxBytes != wp.PartitionMaxBytes {
						t.Fatalf("version %d partition: %+v, want %+v", version, p, wp)
					}
				}
			}
			for cut := range len(body) {
				if err := (&fetchState{}).decode(version, body[:cut]); err == nil {
					t.Fatalf("version %d: %d of %d bytes were taken for a request", version, cut, len(body))
				}
			}
		}
	}
}

func randomFetchRequest(rnd *rand.Rand, version int16) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = version
	r.ReplicaID = rnd.Int32N(3) - 1
	r.ReplicaState.ID = rnd.Int32N(3) - 1
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = rnd.Int32(), rnd.Int32(), rnd.Int32()
	r.IsolationLevel = int8(rnd.IntN(2))
	r.SessionID, r.SessionEpoch = rnd.Int32(), rnd.Int32()
	r.Rack = "rack"[:rnd.IntN(5)]
	for range rnd.IntN(3) {
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = "a-topic-name"[:rnd.IntN(12)]
		rt.TopicID = [16]byte{byte(rnd.Int())}
		for range rnd.IntN(3) {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.FetchOffset = rnd.Int32(), rnd.Int32(), rnd.Int64()
			rp.LastFetchedEpoch, rp.LogStartOffset, rp.PartitionMaxBytes = rnd.Int32(), rnd.Int64(), rnd.Int32()
			rp.ReplicaDirectoryID = [16]byte{byte(rnd.IntN(2))}
			rp.HighWatermark = rnd.Int64()
			rt.Partitions = append(rt.Partitions, rp)
		}
		r.Topics = append(r.Topics, rt)
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		forgotten.Topic, forgotten.TopicID = rt.Topic, rt.TopicID
		forgotten.Partitions = []int32{1, 2}
		r.ForgottenTopics = append(r.ForgottenTopics, forgotten)
	}
	return r
}

func TestProduceIsKafkas(t *testing.T) {
	b := brokerWithImage(t)
	elsewhere := ledElsewhere(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for version := int16(3); version <= 13; version++ {
		for shape := range 40 {
			r := kmsg.NewPtrProduceRequest()
			r.Version, r.Acks, r.TimeoutMillis = version, int16(rnd.IntN(3)-1), rnd.Int32()
			want := kmsg.NewPtrProduceResponse()
			want.Version = version
			for range rnd.IntN(4) {
				rt := kmsg.NewProduceRequestTopic()
				rt.Topic, rt.TopicID = "the-name-of-a-topic"[:rnd.IntN(19)], [16]byte{byte(rnd.Int())}
				wt := kmsg.NewProduceResponseTopic()
				wt.Topic, wt.TopicID = rt.Topic, rt.TopicID
				for range 1 + rnd.IntN(3) {
					rp := kmsg.NewProduceRequestTopicPartition()
					rp.Partition, rp.Records = rnd.Int32(), make([]byte, rnd.IntN(300))
					rt.Partitions = append(rt.Partitions, rp)
					wp := kmsg.NewProduceResponseTopicPartition()
					wp.Partition, wp.ErrorCode = rp.Partition, []int16{0, 2, kerr.NotLeaderForPartition.Code}[rnd.IntN(3)]
					wp.BaseOffset, wp.LogAppendTime, wp.LogStartOffset = rnd.Int64(), rnd.Int64(), rnd.Int64()
					if rnd.IntN(2) == 0 {
						wp.ErrorMessage = new("what went wrong")
					}
					if version >= produceErrorText && rnd.IntN(2) == 0 {
						wp.ErrorRecords = []kmsg.ProduceResponseTopicPartitionErrorRecord{{RelativeOffset: rnd.Int32(), ErrorMessage: new("in a record")}}
					}
					wt.Partitions = append(wt.Partitions, wp)
				}
				r.Topics = append(r.Topics, rt)
				want.Topics = append(want.Topics, wt)
			}
			got := exchange(t, serveFunc(func(e *wire.Exchange) {
				st := &produceState{broker: b, exchange: e}
				if err := st.decode(version, e.Body); err != nil {
					t.Error(err)
				}
				if st.acks != r.Acks || st.timeout != r.TimeoutMillis {
					t.Errorf("acks %d timeout %d", st.acks, st.timeout)
				}
				fillProduced(t, st, elsewhere, r, want)
				e.ReplyPieces(st.encode())
			}), keyProduce, version, r.AppendTo(nil), version >= produceFlexible)
			if !bytes.Equal(got, want.AppendTo(nil)) {
				t.Fatalf("version %d shape %d:\n got %q\nwant %q", version, shape, got, want.AppendTo(nil))
			}
		}
	}
}

// fillProduced puts the results of want into a decoded request.
func fillProduced(t *testing.T, st *produceState, elsewhere *replica.Partition, r *kmsg.ProduceRequest, want *kmsg.ProduceResponse) {
	t.Helper()
	for i := range want.Topics {
		for j := range want.Topics[i].Partitions {
			wp := &want.Topics[i].Partitions[j]
			part := &st.topics[i].parts[j]
			if part.index != wp.Partition || len(part.records) != len(r.Topics[i].Partitions[j].Records) {
				t.Errorf("partition %d with %d bytes", part.index, len(part.records))
			}
			part.code, part.base, part.appended, part.logStart, part.text = wp.ErrorCode, wp.BaseOffset, wp.LogAppendTime, wp.LogStartOffset, wp.ErrorMessage
			for _, e := range wp.ErrorRecords {
				part.wrong = &record.RecordError{Index: int(e.RelativeOffset), Err: errors.New(*e.ErrorMessage)}
			}
			if wp.ErrorCode == kerr.NotLeaderForPartition.Code {
				part.replica = elsewhere
				if st.version >= produceLeaders {
					wp.CurrentLeader.LeaderID, wp.CurrentLeader.LeaderEpoch = 5, 9
					want.Brokers = []kmsg.ProduceResponseBroker{{NodeID: 3, Host: "three.example", Port: 9093}}
				}
			}
		}
	}
}

// ledElsewhere is a replica whose leader is broker 5 in epoch 9.
func ledElsewhere(t *testing.T) *replica.Partition {
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
	p := replica.New(3, l, nil)
	p.Assign(replica.Assignment{Leader: 5, Epoch: 9, PartitionEpoch: 1, Replicas: []offsets.BrokerID{3, 5}, ISR: []offsets.BrokerID{3, 5}, MinISR: 1})
	return p
}
