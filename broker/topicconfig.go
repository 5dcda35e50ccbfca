package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/controller"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/offsets"
)

// topicConfig is a topic's configuration, parsed.
type topicConfig struct {
	log                  log.Config
	minISR               int
	rules                record.Rules // of a produced batch, but for the time
	recode               bool         // compression.type isn't producer
	codec                record.Codec
	level                int
	held                 map[int32][]heldFor // what load jobs still need, by partition
	holdBytes, holdMilli int64

	slowLeading, slowFollowing throttled // replicas that may be held up
}

// layers are where the value of a configuration may come from, strongest first.
type layers struct {
	topic   map[string]string // set on the topic
	own     map[string]string // set for this broker, by the broker-wide name
	dynamic map[string]string // set for all brokers, by the broker-wide name
	static  map[string]string // given at start, by the topic's name
	// replicated: every partition has other replicas, which hold what a power
	// cut takes from this one.
	replicated bool
	// lone: a topic of which some partition has one replica only.
	lone bool
}

// find tells a configuration's value and source.
func (l layers) find(s *setting) (string, kmsg.ConfigSource) {
	if v, ok := l.topic[s.name]; ok {
		return v, kmsg.ConfigSourceDynamicTopicConfig
	}
	if v, ok := l.own[s.broker]; ok {
		return v, kmsg.ConfigSourceDynamicBrokerConfig
	}
	if v, ok := l.dynamic[s.broker]; ok {
		return v, kmsg.ConfigSourceDynamicDefaultBrokerConfig
	}
	if v, ok := l.static[s.name]; ok {
		return v, kmsg.ConfigSourceStaticBrokerConfig
	}
	return l.ofTable(s), kmsg.ConfigSourceDefaultConfig
}

// ofTable is a configuration's value where nobody set it.
func (l layers) ofTable(s *setting) string {
	switch {
	case l.replicated && s.name == "flush.ms":
		return maxLong
	case l.lone && s.name == "min.insync.replicas":
		return "1" // tools would take a healthy topic for one in need
	}
	return s.value
}

// layers are those of one topic.
func (b *Broker) layers(meta *controller.Topic, im *controller.Image) layers {
	replicated := len(meta.Partitions) > 0
	for i := range meta.Partitions {
		replicated = replicated && len(meta.Partitions[i].Replicas) > 1
	}
	l := b.brokerLayers(im)
	l.topic, l.replicated, l.lone = meta.Configs, replicated, !replicated
	return l
}

// brokerLayers are those below any topic's.
func (b *Broker) brokerLayers(im *controller.Image) layers {
	return layers{own: im.BrokerConfigs(b.nodeID), dynamic: im.BrokerConfig, static: b.config.Defaults}
}

// resolve parses all layers. What doesn't parse was refused when it was set;
// where it still stands (set by a later release), the default holds.
func (l layers) resolve() topicConfig {
	text := func(name string) string {
		s, _ := findSetting(name)
		v, _ := l.find(s)
		if v = strings.TrimSpace(v); s.check(v) != nil {
			return l.ofTable(s)
		}
		return v
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(text(name), 10, 64) // checked by text
		return n
	}
	c := topicConfig{
		minISR:    int(number("min.insync.replicas")),
		holdBytes: number("retention.hold.max.bytes"),
		holdMilli: number("retention.hold.max.ms"),

		slowLeading:   parseThrottled(text(leaderReplicasKey)),
		slowFollowing: parseThrottled(text(followerReplicasKey)),
	}
	c.log = log.DefaultConfig()
	c.log.SegmentBytes = number("segment.bytes")
	c.log.SegmentMs = number("segment.ms")
	c.log.RetentionMs = number("retention.ms")
	c.log.RetentionBytes = max(number("retention.bytes"), -1)
	c.log.IndexBytes = number("segment.index.bytes")
	c.log.IndexInterval = int(number("index.interval.bytes"))
	c.log.MaxBatchBytes = int(number("max.message.bytes"))
	c.log.FlushMessages = number("flush.messages")
	c.log.FlushMs = number("flush.ms")
	c.log.MinCleanableRatio, _ = strconv.ParseFloat(text("min.cleanable.dirty.ratio"), 64) // checked by text
	c.log.MinCompactionLagMs = number("min.compaction.lag.ms")
	c.log.MaxCompactionLagMs = number("max.compaction.lag.ms")
	c.log.DeleteRetentionMs = number("delete.retention.ms")
	c.log.LogAppendTime = text("message.timestamp.type") == "LogAppendTime"
	c.log.Compact, c.log.Delete = false, false
	for _, policy := range splitList(text("cleanup.policy")) {
		c.log.Compact = c.log.Compact || policy == "compact"
		c.log.Delete = c.log.Delete || policy == "delete"
	}
	c.log.Codec = text("compression.type")
	c.codec, c.recode = codecOf(c.log.Codec)
	if c.log.Codec == "uncompressed" {
		c.log.Codec = record.None.String()
	}
	switch c.codec {
	case record.Gzip:
		c.level = int(number("compression.gzip.level"))
	case record.LZ4:
		c.level = int(number("compression.lz4.level"))
	case record.Zstd:
		c.level = int(number("compression.zstd.level"))
	}
	c.rules = record.Rules{
		MaxDecompressed: int(number("max.decompressed.message.bytes")),

		NeedKeys:      c.log.Compact,
		LogAppendTime: c.log.LogAppendTime,
		BeforeMax:     bound(number("message.timestamp.before.max.ms")),
		AfterMax:      bound(number("message.timestamp.after.max.ms")),
	}
	for name, v := range l.topic {
		if _, known := findSetting(name); known || !strings.HasPrefix(name, holdPrefix) {
			continue
		}
		held, maxMs, _ := parseHold(v) // checked when it was set; a bad one holds nothing
		for partition, offset := range held {
			if c.held == nil {
				c.held = map[int32][]heldFor{}
			}
			c.held[partition] = append(c.held[partition], heldFor{offset, maxMs})
		}
	}
	return c
}

// bound turns Kafka's "no limit" and "nothing" into those of record.Rules.
func bound(ms int64) int64 {
	switch ms {
	case 1<<63 - 1:
		return 0
	case 0:
		return -1
	}
	return ms
}

// hold is the first offset of a partition that retention must keep, and
// compaction leave as it is, for load jobs, or log.NoHold. The caps make a job
// that stopped for good give way.
func (c *topicConfig) hold(l *log.Log, now time.Time) offsets.Offset {
	from := log.NoHold
	if c.holdBytes >= 0 && l.Size() > c.holdBytes {
		return from
	}
	for _, job := range c.held[l.TopicPartition().Partition] {
		from = min(from, job.start(l, now, c.holdMilli))
	}
	return from
}

// heldFor is what one load job still needs of a partition.
type heldFor struct {
	from  int64 // offset
	maxMs int64 // records older than that give way; -1 = as the topic says
}

// start is the first offset that is held for the job, while no record held is
// older than both it and the topic (maxMs, -1 = any age) allow.
func (h heldFor) start(l *log.Log, now time.Time, maxMs int64) offsets.Offset {
	if maxMs < 0 || h.maxMs >= 0 && h.maxMs < maxMs {
		maxMs = h.maxMs
	}
	from := offsets.Offset(h.from)
	if maxMs < 0 {
		return from
	}
	young, _, _, found, err := l.OffsetForTime(now.UnixMilli()-maxMs, l.End())
	switch {
	case err != nil: // can't tell: keep
		return from
	case !found:
		return log.NoHold
	}
	return max(from, young)
}
