package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
	"sawlog/offsets"
)

// Topic is a topic and its partitions, in their order.
type Topic struct {
	Name       string
	ID         offsets.TopicID // zero when the cluster knows none
	Internal   bool
	Partitions []Partition
}

// Partition is one partition of a topic. Where they are told,
// Start ≤ LastStable ≤ End.
type Partition struct {
	Topic            string
	TopicID          offsets.TopicID
	Index            int32
	Leader           int32 // Untold = none
	Epoch            int32
	Replicas, ISR    []int32
	Adding, Removing []int32 // by a move under way
	Start            int64   // of the log
	LastStable       int64
	End              int64 // the high watermark
	Found            int64 // an offset that was asked for by time
	Size             int64 // bytes of the leader's log
}

// Place names the partition.
func (p *Partition) Place() offsets.TopicPartition {
	return offsets.TopicPartition{Topic: p.Topic, Partition: p.Index}
}

// Records is how many offsets the log holds, an upper bound of its records.
func (p *Partition) Records() int64 {
	if p.Start < 0 || p.End < 0 {
		return Untold
	}
	return p.End - p.Start
}

// Offline tells whether nobody leads the partition.
func (p *Partition) Offline() bool { return p.Leader < 0 }

// Moving tells whether copies are being moved.
func (p *Partition) Moving() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Target is where the copies will be once the move is done.
func (p *Partition) Target() []int32 { return Without(p.Replicas, p.Removing...) }

// Settled is where they are supposed to be before that.
func (p *Partition) Settled() []int32 { return Without(p.Replicas, p.Adding...) }

// Lacking tells whether a copy that should be complete is not: one that a move
// adds is not expected to be.
func (p *Partition) Lacking() bool { return len(Without(p.Settled(), p.ISR...)) > 0 }

// UnderMinISR tells whether the partition takes no records with acks=all, where so
// many copies must be in sync for them.
func (p *Partition) UnderMinISR(least int) bool { return len(p.ISR) < min(least, len(p.Settled())) }

// Trouble says in a word what is wrong with the partition; "" = nothing.
func (p *Partition) Trouble() string {
	switch {
	case p.Offline():
		return "offline"
	case p.Lacking():
		return "under-replicated"
	}
	return ""
}

// Strayed tells whether another leads than the preferred leader, which could.
func (p *Partition) Strayed() bool {
	return p.Leader >= 0 && len(p.Replicas) > 0 && p.Leader != p.Replicas[0] && slices.Contains(p.ISR, p.Replicas[0])
}

// Without is a list without some of its elements.
func Without(list []int32, gone ...int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(gone, id) })
}

// Count counts the partitions of a topic for which is holds.
func (t *Topic) Count(is func(*Partition) bool) (n int) {
	for i := range t.Partitions {
		if is(&t.Partitions[i]) {
			n++
		}
	}
	return n
}

// Offline counts the partitions without a leader.
func (t *Topic) Offline() int { return t.Count((*Partition).Offline) }

// Lacking counts the partitions that have a leader and lack a copy.
func (t *Topic) Lacking() int {
	return t.Count(func(p *Partition) bool { return !p.Offline() && p.Lacking() })
}

// Replicas is how many copies its first partition has, the same for all as a rule.
func (t *Topic) Replicas() int {
	if len(t.Partitions) == 0 {
		return 0
	}
	return len(t.Partitions[0].Replicas)
}

// Records adds up the partitions; Untold when one of them is.
func (t *Topic) Records() int64 { return t.Sum((*Partition).Records) }

// Bytes adds up the leaders' logs; Untold when one of them is.
func (t *Topic) Bytes() int64 { return t.Sum(func(p *Partition) int64 { return p.Size }) }

// Sum adds up a number of the partitions; Untold when one of them is.
func (t *Topic) Sum(of func(*Partition) int64) (n int64) {
	for i := range t.Partitions {
		v := of(&t.Partitions[i])
		if v < 0 {
			return Untold
		}
		n += v
	}
	return n
}

// PartitionsOf points to all partitions of some topics.
func PartitionsOf(topics []Topic) []*Partition {
	var all []*Partition
	for i := range topics {
		for j := range topics[i].Partitions {
			all = append(all, &topics[i].Partitions[j])
		}
	}
	return all
}

// ByPlace finds partitions again in an answer.
func ByPlace(ps []*Partition) map[offsets.TopicPartition]*Partition {
	m := make(map[offsets.TopicPartition]*Partition, len(ps))
	for _, p := range ps {
		m[p.Place()] = p
	}
	return m
}

// Topics asks where the partitions of topics are, of all topics when none is
// named, in order of name. A topic that is named must be there.
func Topics(ctx context.Context, c consumer.Requestor, names ...string) ([]Topic, error) {
	list, refused, err := metadata(ctx, c, names)
	if err != nil || len(names) == 0 {
		return list, err
	}
	var all refusals
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		all.add(refused[name])
	}
	if err := all.err(); err != nil {
		return nil, err
	}
	return list, nil
}

// PartitionsAt finds partitions; left out are those that are no more, and only
// those: of what could not be asked, or was refused, nothing is told, and it is the
// error.
func PartitionsAt(ctx context.Context, c consumer.Requestor, wanted map[offsets.TopicPartition]bool) ([]*Partition, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	var names []string
	for at := range wanted {
		names = append(names, at.Topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	topics, refused, err := metadata(ctx, c, names)
	ps := slices.DeleteFunc(PartitionsOf(topics), func(p *Partition) bool { return !wanted[p.Place()] })
	var all refusals
	all.add(err)
	for _, name := range names {
		if absent(refused[name]) {
			delete(refused, name)
		}
		if refused[name] != nil {
			all.add(refused[name])
		}
	}
	for at := range wanted {
		if err != nil || refused[at.Topic] != nil {
			p := unknown(at.Topic, at.Partition)
			ps = append(ps, &p)
		}
	}
	return inOrder(ps), all.err()
}

// absent tells whether a topic was refused because it is not there.
func absent(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// unknown is a partition of which nothing is told.
func unknown(topic string, index int32) Partition {
	return Partition{
		Topic: topic, Index: index, Leader: Untold, Epoch: Untold,
		Start: Untold, LastStable: Untold, End: Untold, Found: Untold, Size: Untold,
	}
}

// metadata asks for topics. Those that were refused, because they are not there,
// say, are told apart.
func metadata(ctx context.Context, c consumer.Requestor, names []string) (list []Topic, refused map[string]error, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	resp, err := consumer.Ask[*kmsg.MetadataResponse](ctx, c, req)
	if err != nil {
		return nil, nil, err
	}
	refused = map[string]error{}
	for i := range resp.Topics {
		mt := &resp.Topics[i]
		name := deref(mt.Topic)
		if err := refusal("topic "+name, mt.ErrorCode, nil); err != nil {
			refused[name] = err
			continue
		}
		t := Topic{Name: name, ID: mt.TopicID, Internal: mt.IsInternal}
		for _, p := range mt.Partitions {
			one := unknown(name, p.Partition)
			one.TopicID, one.Leader, one.Epoch, one.Replicas, one.ISR = t.ID, max(p.Leader, Untold), p.LeaderEpoch, p.Replicas, p.ISR
			t.Partitions = append(t.Partitions, one)
		}
		slices.SortFunc(t.Partitions, func(a, b Partition) int { return cmp.Compare(a.Index, b.Index) })
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return list, refused, nil
}
