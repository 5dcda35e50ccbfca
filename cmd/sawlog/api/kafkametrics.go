package api

import (
	"context"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// The names are those of kafka_exporter, so that its dashboards and alerts work.
var (
	brokerCount    = desc("kafka_brokers", "Brokers of the cluster.")
	topicParts     = desc("kafka_topic_partitions", "Partitions of a topic.", "topic")
	topicEnd       = desc("kafka_topic_partition_current_offset", "High watermark of a partition.", "topic", "partition")
	topicStart     = desc("kafka_topic_partition_oldest_offset", "Log start of a partition.", "topic", "partition")
	topicLeader    = desc("kafka_topic_partition_leader", "Leader of a partition; -1 = none.", "topic", "partition")
	topicReplicas  = desc("kafka_topic_partition_replicas", "Replicas of a partition.", "topic", "partition")
	topicISR       = desc("kafka_topic_partition_in_sync_replica", "Replicas of a partition that are in sync.", "topic", "partition")
	topicPreferred = desc("kafka_topic_partition_leader_is_preferred", "1 where the first replica leads the partition.", "topic", "partition")
	topicUnder     = desc("kafka_topic_partition_under_replicated_partition", "1 where a replica of the partition is not in sync.", "topic", "partition")
	groupMember    = desc("kafka_consumergroup_members", "Members of a group.", "consumergroup")
	groupAtSum     = desc("kafka_consumergroup_current_offset_sum", "Sum of a group's committed offsets of a topic.", "consumergroup", "topic")
	groupLagSum    = desc("kafka_consumergroup_lag_sum", "Records of a topic that a group has yet to read.", "consumergroup", "topic")
	groupAt        = desc("kafka_consumergroup_current_offset", "Committed offset of a group.", "consumergroup", "topic", "partition")
	groupLag       = desc("kafka_consumergroup_lag", "Records of a partition that a group has yet to read.", "consumergroup", "topic", "partition")
	leftOut        = desc("sawlog_metrics_left_out_series", "Series of partitions and groups that are left out of this answer, which holds 100,000 of them.")
	groupsUntold   = desc("sawlog_metrics_groups_untold", "1 where groups may be lacking in this answer, because not all brokers told of theirs.")
)

var kafkaDescs = []*prometheus.Desc{
	brokerCount, topicParts, topicEnd, topicStart, topicLeader, topicReplicas, topicISR, topicPreferred, topicUnder,
	groupMember, groupAtSum, groupLagSum, groupAt, groupLag, leftOut, groupsUntold,
}

// The series of one topic's partition and of one group's, and how many all
// together one scrape may have: the rest is counted, not shown.
const (
	seriesOfPartition = 7
	seriesOfOffset    = 2
	seriesMost        = 100_000
)

// lagCache keeps the cluster's offsets for a moment, so that scrapers do not
// add up to load on the brokers.
type lagCache struct {
	mu      sync.Mutex
	at      time.Time
	topics  []Topic
	groups  []Group
	brokers int
	untold  int64 // 1 where some brokers didn't tell of their groups
}

// lagAge is how long offsets are shown before they are asked for again.
const lagAge = 10 * time.Second

func (l *lagCache) collect(ch chan<- prometheus.Metric, c Cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) > lagAge {
		l.refresh(c)
	}
	s := series{ch: ch, room: seriesMost}
	if l.brokers > 0 {
		s.put(brokerCount, int64(l.brokers))
	}
	for i := range l.topics {
		s.topic(&l.topics[i])
	}
	for i := range l.groups {
		s.group(&l.groups[i])
	}
	s.put(leftOut, s.left)
	s.put(groupsUntold, l.untold)
}

// series shows what there is room for.
type series struct {
	ch         chan<- prometheus.Metric
	room, left int64
}

func (s *series) put(d *prometheus.Desc, v int64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

// told shows what is known.
func (s *series) told(d *prometheus.Desc, v int64, labels ...string) {
	if v >= 0 {
		s.put(d, v, labels...)
	}
}

// take tells whether there is room for n series more.
func (s *series) take(n int) bool {
	if s.room < int64(n) {
		s.left += int64(n)
		return false
	}
	s.room -= int64(n)
	return true
}

func (s *series) topic(t *Topic) {
	if s.take(1) {
		s.put(topicParts, int64(len(t.Partitions)), t.Name)
	}
	if !s.take(seriesOfPartition * len(t.Partitions)) {
		return
	}
	flag := map[bool]int64{true: 1}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		index := strconv.Itoa(int(p.Index))
		if p.HighWatermark >= 0 {
			s.put(topicEnd, p.HighWatermark, t.Name, index)
			s.put(topicStart, p.LogStart, t.Name, index)
		}
		s.put(topicLeader, int64(p.Leader), t.Name, index)
		s.put(topicReplicas, int64(len(p.Replicas)), t.Name, index)
		s.put(topicISR, int64(len(p.ISR)), t.Name, index)
		s.put(topicPreferred, flag[len(p.Replicas) > 0 && p.Leader == p.Replicas[0]], t.Name, index)
		s.put(topicUnder, flag[len(p.ISR) < len(p.Replicas)], t.Name, index)
	}
}

// label is a name as a label may hold it. Groups may have any bytes for a name,
// and one that is no UTF-8 would end the scrape.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

func (s *series) group(g *Group) {
	name := label(g.Name)
	if g.Members >= 0 && s.take(1) {
		s.put(groupMember, int64(g.Members), name)
	}
	for i := 0; i < len(g.Offsets); { // they are in order of topics
		topic, at, lag, from := g.Offsets[i].Topic, int64(0), int64(0), i
		for ; i < len(g.Offsets) && g.Offsets[i].Topic == topic; i++ {
			at, lag = at+g.Offsets[i].Committed, sum(lag, g.Offsets[i].Lag)
		}
		if s.take(2) {
			s.put(groupAtSum, at, name, topic)
			s.told(groupLagSum, lag, name, topic)
		}
		if !s.take(seriesOfOffset * (i - from)) {
			continue
		}
		for _, o := range g.Offsets[from:i] {
			index := strconv.Itoa(int(o.Partition))
			s.put(groupAt, o.Committed, name, topic, index)
			s.told(groupLag, o.Lag, name, topic, index)
		}
	}
}

// refresh asks the cluster; what it does not answer is left out of the scrape.
func (l *lagCache) refresh(c Cluster) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.at, l.topics, l.groups, l.brokers, l.untold = time.Now(), nil, nil, 0, 0
	if info, err := c.Info(ctx); err == nil {
		l.brokers = len(info.Brokers)
	}
	if topics, err := c.Topics(ctx); err == nil {
		l.topics = topics
	}
	var err error
	if l.groups, err = c.Groups(ctx, true); err != nil {
		l.untold = 1
	}
}
