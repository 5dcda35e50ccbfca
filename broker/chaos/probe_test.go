//go:build linux

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
	"sawlog/broker/record"
)

// prober sends one record at a time to a partition, acks=all, and never tries
// one again: so it knows when the partition took writes, and which records were
// definitely refused.
type prober struct {
	h     *history
	seeds []string
	place
	seq  int64
	turn int // which seed is asked next
	conn *peer.Conn
	node int32
}

// probeTick is how often a partition is probed.
const probeTick = 50 * time.Millisecond

// probe sends until ctx ends.
func probe(ctx context.Context, h *history, seeds []string, p place) {
	b := &prober{h: h, seeds: seeds, place: p, turn: int(p.Partition)}
	defer b.hangUp()
	tick := time.NewTicker(probeTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b.conn == nil && b.find(ctx) != nil {
			continue
		}
		b.one()
	}
}

func (b *prober) hangUp() {
	if b.conn != nil {
		_ = b.conn.Close() // whatever was on it is unknown now
		b.conn = nil
	}
}

// find connects to the leader, by the word of the next seed.
func (b *prober) find(ctx context.Context) error {
	b.turn++
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 8
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: new(b.Topic)}}
	resp, err := ask(b.seeds[b.turn%len(b.seeds)], req, 500*time.Millisecond)
	if err != nil {
		return err
	}
	m := resp.(*kmsg.MetadataResponse)
	i := slices.IndexFunc(m.Topics[0].Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == b.Partition })
	if i < 0 || m.Topics[0].Partitions[i].Leader < 0 {
		return errors.New("no leader")
	}
	leader := m.Topics[0].Partitions[i].Leader
	j := slices.IndexFunc(m.Brokers, func(n kmsg.MetadataResponseBroker) bool { return n.NodeID == leader })
	if j < 0 {
		return fmt.Errorf("leader %d is no broker", leader)
	}
	limit, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	b.node = leader
	b.conn, err = peer.Dial(limit, m.Brokers[j].Host+":"+strconv.Itoa(int(m.Brokers[j].Port)))
	if err != nil {
		b.conn = nil
	}
	return err
}

// probeLimit is how long a probe waits; what isn't there by then is unknown.
const probeLimit = 1500 * time.Millisecond

// one sends one record.
func (b *prober) one() {
	b.seq++
	s := sent{place: b.place, Node: b.node, From: b.h.now(), value: value{"probe", strconv.Itoa(int(b.Partition)), b.seq, time.Now().UTC().Format(time.RFC3339Nano)}}
	req, err := produceRequest(b.place, s.value, probeLimit)
	if err != nil {
		b.h.complain("%v", err)
		return
	}
	resp, err := b.conn.Ask(req, probeLimit+500*time.Millisecond)
	s.To = b.h.now()
	if err != nil {
		s.Err = err.Error()
		b.h.send(s)
		b.hangUp()
		return
	}
	p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	s.Verdict, s.Offset = verdictOf(p.ErrorCode), p.BaseOffset
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		s.Err = err.Error()
		b.hangUp()
	}
	b.h.send(s)
}

// verdictOf says what an error means for the record. One that may come after
// the append leaves it open: leadership may be lost while the answer waits.
func verdictOf(code int16) verdict {
	switch code {
	case 0:
		return acked
	case kerr.NotEnoughReplicas.Code, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.MessageTooLarge.Code, kerr.InvalidRecord.Code:
		return refused
	}
	return unknown
}

// produceRequest is one record for one partition.
func produceRequest(p place, v value, limit time.Duration) (*kmsg.ProduceRequest, error) {
	w := record.NewBuilder(record.None, record.DefaultLevel)
	w.Append(record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(v.Producer + v.Key), Value: v.bytes()})
	batch, err := w.Batch()
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, int32(limit.Milliseconds())
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic:      p.Topic,
		Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: p.Partition, Records: batch}},
	}}
	return req, nil
}

// outage is a time in which a partition took no writes.
type outage struct {
	place
	From, To time.Duration
}

// outages are the gaps between the acknowledgements of probes, by partition; a
// gap is open at the end when the last probe wasn't acknowledged.
func outages(h *history, end, least time.Duration) []outage {
	last := map[place]time.Duration{}
	var all []outage
	probes := slices.DeleteFunc(slices.Clone(h.Sent), func(s sent) bool { return s.Producer != "probe" })
	slices.SortFunc(probes, func(a, b sent) int { return cmp.Compare(a.To, b.To) })
	for _, s := range probes {
		if _, ok := last[s.place]; !ok {
			last[s.place] = s.From
		}
		if s.Verdict != acked {
			continue
		}
		if s.To-last[s.place] >= least {
			all = append(all, outage{s.place, last[s.place], s.To})
		}
		last[s.place] = s.To
	}
	for p, at := range last {
		if end-at >= least {
			all = append(all, outage{p, at, end})
		}
	}
	slices.SortFunc(all, func(a, b outage) int { return cmp.Compare(a.From, b.From) })
	return all
}
