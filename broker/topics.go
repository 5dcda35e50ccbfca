package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/replica"
	"sawlog/offsets"
)

// topic is one topic with the replicas of it on this broker. It never changes:
// a change makes a new one.
type topic struct {
	meta       *controller.Topic
	config     topicConfig
	partitions []*replica.Partition // nil where this broker holds no replica
	incomplete bool                 // the disk was full: a log is still to be made
}

// partition is the replica of an index, or nil.
func (t *topic) partition(index int32) *replica.Partition {
	if index < 0 || int(index) >= len(t.partitions) {
		return nil
	}
	return t.partitions[index]
}

// topicSet is the topics as the requests see them.
type topicSet struct {
	changing sync.Mutex // held by whoever makes the topics follow an image

	mu     sync.RWMutex
	byName map[string]*topic
	byID   map[offsets.TopicID]*topic

	// found are the logs of the data directory that no topic has claimed yet.
	found map[offsets.TopicPartition]*log.Log
}

func newTopicSet(logs []*log.Log) *topicSet {
	s := &topicSet{
		byName: map[string]*topic{},
		byID:   map[offsets.TopicID]*topic{},
		found:  map[offsets.TopicPartition]*log.Log{},
	}
	for _, l := range logs {
		s.found[l.TopicPartition()] = l
	}
	return s
}

// name finds a topic; the key is bytes so that a request's need not be copied.
func (s *topicSet) name(name []byte) *topic {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[string(name)]
}

func (s *topicSet) id(id offsets.TopicID) *topic {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// all lists the topics in no order.
func (s *topicSet) all() []*topic {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*topic, 0, len(s.byName))
	for _, t := range s.byName {
		all = append(all, t)
	}
	return all
}

func (s *topicSet) put(t *topic) {
	s.mu.Lock()
	s.byName[t.meta.Name] = t
	s.byID[t.meta.ID] = t
	s.mu.Unlock()
}

func (s *topicSet) remove(t *topic) {
	s.mu.Lock()
	delete(s.byID, t.meta.ID)
	if s.byName[t.meta.Name] == t {
		delete(s.byName, t.meta.Name)
	}
	s.mu.Unlock()
}

// onChange makes the logs and replicas follow the metadata. It runs on the
// controller's goroutine, one change after the other.
func (b *Broker) onChange(old, now *controller.Image) {
	if b.failing() {
		return
	}
	began := time.Now()
	b.topics.changing.Lock()
	defer b.topics.changing.Unlock()
	for _, t := range old.Topics() {
		if _, ok := now.TopicByID(t.ID); !ok {
			b.dropTopic(t)
		}
	}
	everywhere := !sameConfigs(old.BrokerConfig, now.BrokerConfig) || !sameConfigs(old.BrokerConfigs(b.nodeID), now.BrokerConfigs(b.nodeID))
	if everywhere {
		b.setRates(now)
	}
	var led []quiet
	var changed []*topic
	elected := 0
	for _, t := range now.Topics() {
		before, _ := old.TopicByID(t.ID)
		if before == t && !everywhere {
			continue
		}
		made, err := b.makeTopic(t, now)
		if err != nil {
			b.fail(fmt.Errorf("topic %s: %w", t.Name, err))
			return
		}
		changed = append(changed, made)
		led = b.newEpochs(led, before, made)
		elected += b.metrics.changes.count(b.nodeID, before, t)
	}
	b.adopt(changed, led, now.Index)
	if took := time.Since(began); len(led) > 0 {
		b.metrics.changes.took(took)
		if elected > 0 {
			b.config.Logger.Info("this broker leads more partitions", "partitions", elected, "took", took)
		}
	}
	b.keepISRs(old, now)
}

// adopt makes topics usable, after the epochs in which this broker leads are on
// disk: no record of an epoch may come before. All other appends to those logs
// have ended by then, so that where the epochs begin stays true.
func (b *Broker) adopt(changed []*topic, led []quiet, image uint64) {
	if len(led) > 0 {
		epochs := make([]log.Assignment, len(led))
		for i, q := range led {
			q.partition.Quiesce()
			epochs[i] = log.Assignment{Log: q.partition.Log(), Epoch: q.epoch}
		}
		if err := b.disk.Assign(epochs); err != nil {
			b.fail(fmt.Errorf("record leader epochs: %w", err))
			return
		}
	}
	var following []replica.Following
	for _, t := range changed {
		news := t.since(b.topics.id(t.meta.ID))
		b.resign(t)
		b.assign(t, news, image)
		b.topics.put(t)
		b.elect(t)
		following = b.follow(following, t, news)
	}
	b.fetchers.Set(following)
}

// since lists the replicas here for which something is new since before, which
// may be nil: of a hundred partitions one change is often about one, and the
// others, who waits for them and who follows them are to be left in peace.
func (t *topic) since(before *topic) (news []int32) {
	for i, p := range t.partitions {
		if p == nil {
			continue
		}
		index := int32(i)
		known := before != nil && before.partition(index) == p && before.config.minISR == t.config.minISR &&
			before.meta.Partitions[i].PartitionEpoch == t.meta.Partitions[i].PartitionEpoch
		if !known {
			news = append(news, index)
		}
	}
	return news
}

// quiet is a partition whose leader this broker becomes.
type quiet struct {
	partition *replica.Partition
	epoch     offsets.Epoch
}

// follow adds whom the replicas of a topic follow.
func (b *Broker) follow(list []replica.Following, t *topic, news []int32) []replica.Following {
	for _, i := range news {
		m := &t.meta.Partitions[i]
		leader := m.Leader
		if leader == b.nodeID {
			leader = offsets.NoBroker
		}
		list = append(list, replica.Following{Partition: t.partitions[i], Leader: leader, Epoch: m.Epoch})
	}
	return list
}

// completeTopics makes the logs that a full disk had no room for.
func (b *Broker) completeTopics() {
	b.topics.changing.Lock()
	defer b.topics.changing.Unlock()
	im := b.controller.Image()
	for _, t := range b.topics.all() {
		meta, ok := im.TopicByID(t.meta.ID)
		if !t.incomplete || !ok || meta != t.meta {
			continue // a change of it is on its way here
		}
		made, err := b.makeTopic(meta, im)
		if err != nil {
			b.fail(fmt.Errorf("topic %s: %w", meta.Name, err))
			return
		}
		b.adopt([]*topic{made}, b.newEpochs(nil, nil, made), im.Index)
	}
}

// makeTopic opens or makes the logs of a topic's replicas on this broker.
func (b *Broker) makeTopic(meta *controller.Topic, now *controller.Image) (*topic, error) {
	t := &topic{meta: meta, config: b.layers(meta, now).resolve()}
	before := b.topics.id(meta.ID)
	t.partitions = make([]*replica.Partition, len(meta.Partitions))
	for i := range meta.Partitions {
		p := &meta.Partitions[i]
		if !slices.Contains(p.Replicas, b.nodeID) {
			continue
		}
		if before != nil && before.partition(p.Index) != nil {
			t.partitions[i] = before.partitions[i]
			if before.config.log != t.config.log {
				t.partitions[i].Log().SetConfig(t.config.log)
			}
			continue
		}
		l, err := b.claim(offsets.TopicPartition{Topic: meta.Name, Partition: p.Index}, meta.ID, t.config.log)
		if errors.Is(err, log.ErrNoSpace) || errors.Is(err, syscall.ENOSPC) {
			b.config.Logger.Error("no room for a log; it is tried again", "topic", meta.Name, "partition", p.Index, "error", err)
			t.incomplete = true
			continue
		}
		if err != nil {
			return nil, err
		}
		t.partitions[i] = replica.New(b.nodeID, l, b.advanced(meta, p.Index))
		t.partitions[i].OnISR(b.wantISR)
	}
	b.throttle(t)
	return t, b.leave(before, t)
}

// leave sets the logs aside of replicas that this broker no longer holds. Their
// records are on the replicas that took their place; should that be a mistake,
// they are still there for as long as strays are kept.
func (b *Broker) leave(before, t *topic) error {
	if before == nil {
		return nil
	}
	for i, p := range before.partitions {
		if p == nil || t.partition(int32(i)) != nil || !moved(t.meta, int32(i), b.nodeID) {
			continue
		}
		b.fetchers.Set([]replica.Following{{Partition: p, Leader: offsets.NoBroker}})
		p.Left()
		if err := b.disk.Stray(p.Log()); err != nil {
			return err
		}
	}
	return nil
}

// moved tells that a partition has no replica on a node.
func moved(meta *controller.Topic, index int32, node offsets.BrokerID) bool {
	return int(index) >= len(meta.Partitions) || !slices.Contains(meta.Partitions[index].Replicas, node)
}

// claim takes the log of a replica from those found at start, or makes it. A log
// of an earlier topic of that name is set aside: ids never come back, so it is
// dead whatever else this image may not know yet.
func (b *Broker) claim(tp offsets.TopicPartition, id offsets.TopicID, c log.Config) (*log.Log, error) {
	if l := b.topics.found[tp]; l != nil {
		delete(b.topics.found, tp)
		if l.TopicID() == id {
			l.SetConfig(c)
			return l, nil
		}
		if err := b.setAside(l); err != nil {
			return nil, err
		}
	}
	return b.disk.Create(tp, id, c)
}

// newEpochs adds the partitions of t whose leader epoch is new on this broker.
func (b *Broker) newEpochs(led []quiet, before *controller.Topic, t *topic) []quiet {
	for i, p := range t.partitions {
		if p == nil {
			continue
		}
		epoch := t.meta.Partitions[i].Epoch
		known := before != nil && i < len(before.Partitions) && before.Partitions[i].Epoch == epoch
		if !known && t.meta.Partitions[i].Leader == b.nodeID && p.Log().Epoch() < epoch {
			led = append(led, quiet{p, epoch})
		}
	}
	return led
}

// assign tells the replicas of a topic who leads them, as of an image.
func (b *Broker) assign(t *topic, news []int32, image uint64) {
	for _, i := range news {
		m, p := &t.meta.Partitions[i], t.partitions[i]
		p.Assign(replica.Assignment{
			Image:          image,
			Leader:         m.Leader,
			Epoch:          m.Epoch,
			PartitionEpoch: m.PartitionEpoch,
			Replicas:       m.Replicas,
			ISR:            m.ISR,
			MinISR:         m.MinISR(t.config.minISR),
			Recovering:     m.Recovering,
		})
		b.mend(m, t.partitions[i])
	}
}

// mend lets a damaged replica get anew from its leader what it lacks, once it
// no longer counts as complete.
func (b *Broker) mend(m *controller.Partition, p *replica.Partition) {
	if slices.Contains(m.ISR, b.nodeID) || slices.Contains(m.ELR, b.nodeID) {
		return
	}
	switch cut, err := p.Mend(); {
	case err != nil:
		b.config.Logger.Error("can't mend a damaged log", "log", p.Log().TopicPartition().String(), "error", err)
	case cut:
		b.config.Logger.Warn("a damaged log is cut, and fetched anew from its leader", "log", p.Log().TopicPartition().String(), "from", int64(p.Log().End()))
	}
}

// dropTopic deletes a topic's logs.
func (b *Broker) dropTopic(meta *controller.Topic) {
	t := b.topics.id(meta.ID)
	if t == nil {
		return
	}
	b.topics.remove(t)
	b.unhost(meta.Name)
	var gone []replica.Following
	var logs []*log.Log
	for _, p := range t.partitions {
		if p == nil {
			continue
		}
		p.Gone()
		gone = append(gone, replica.Following{Partition: p, Leader: offsets.NoBroker})
		logs = append(logs, p.Log())
	}
	b.fetchers.Set(gone)
	if err := b.disk.Delete(logs...); err != nil {
		b.fail(fmt.Errorf("delete topic %s: %w", meta.Name, err))
		return
	}
	if !meta.Internal {
		b.topicDeleted(meta.Name)
	}
}

// strays sets the logs aside that no topic claims. Called once, after the image
// is known to be the present one.
func (b *Broker) strays() error {
	b.topics.changing.Lock()
	defer b.topics.changing.Unlock()
	for _, l := range b.topics.found {
		if err := b.setAside(l); err != nil {
			return err
		}
	}
	b.topics.found = map[offsets.TopicPartition]*log.Log{}
	return nil
}

func (b *Broker) setAside(l *log.Log) error {
	b.config.Logger.Warn("a log belongs to no topic: it is set aside", "log", l.TopicPartition().String(), "topic_id", l.TopicID().String())
	return b.disk.Stray(l)
}

func sameConfigs(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if have, ok := b[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// ensureTopic returns a topic, made first when it is absent and may be made.
func (b *Broker) ensureTopic(ctx context.Context, want controller.NewTopic) (*topic, error) {
	if t := b.topics.name([]byte(want.Name)); t != nil {
		return t, nil
	}
	made, err := b.controller.CreateTopic(ctx, want)
	if err != nil {
		if t := b.topics.name([]byte(want.Name)); t != nil {
			return t, nil // somebody else made it meanwhile
		}
		return nil, err
	}
	t := b.topics.id(made.ID)
	if t == nil {
		return nil, fmt.Errorf("topic %s: %w", want.Name, controller.ErrUnknownTopic)
	}
	return t, nil
}
