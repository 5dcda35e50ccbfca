package broker

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/group"
)

// startSetting is a setting of the broker's own that a start decides, by
// Kafka's name; topics' defaults are in topicSettings.
type startSetting struct {
	name  string
	kind  kmsg.ConfigType
	value string // default
	check func(string) error
	doc   string
}

// startSettings is every one that Config.Defaults may hold, in ascending order
// of name.
var startSettings = [...]startSetting{
	{"auto.create.topics.enable", kmsg.ConfigTypeBoolean, "true", isBool, "Whether a topic is made when it is first used."},
	{"default.replication.factor", kmsg.ConfigTypeInt, "-1", intIn(-1, math.MaxInt16), "Replicas of a topic that doesn't say; -1 is three, or as many as there are brokers."},
	{"group.initial.rebalance.delay.ms", kmsg.ConfigTypeInt, "3000", intIn(0, math.MaxInt32), "How long a new group waits for more members before its first rebalance."},
	{"group.max.session.timeout.ms", kmsg.ConfigTypeInt, "1800000", intIn(1, math.MaxInt32), "Longest session timeout a group's member may ask for."},
	{"group.max.size", kmsg.ConfigTypeInt, "2147483647", intIn(1, math.MaxInt32), "Most members of a group."},
	{"group.min.session.timeout.ms", kmsg.ConfigTypeInt, "6000", intIn(1, math.MaxInt32), "Shortest session timeout a group's member may ask for."},
	{"log.cleaner.dedupe.buffer.size", kmsg.ConfigTypeLong, "134217728", intIn(1<<20, math.MaxInt64), "Most memory compaction takes for the keys of a log, 24 bytes each."},
	{"log.cleaner.io.max.bytes.per.second", kmsg.ConfigTypeDouble, "1.7976931348623157E308", floatIn(1, math.MaxFloat64), "Bytes that compaction reads and writes in a second at most."},
	{"num.partitions", kmsg.ConfigTypeInt, "1", intIn(1, 100000), "Partitions of a topic that doesn't say."},
	{"offset.metadata.max.bytes", kmsg.ConfigTypeInt, "4096", intIn(1, math.MaxInt32), "Longest metadata committed with an offset."},
	{"offsets.commit.timeout.ms", kmsg.ConfigTypeInt, "5000", intIn(1, math.MaxInt32), "How long a commit of offsets may take."},
	{"offsets.retention.check.interval.ms", kmsg.ConfigTypeLong, "600000", intIn(1, math.MaxInt32), "How often offsets are looked through for those whose time has run out."},
	{"offsets.retention.minutes", kmsg.ConfigTypeInt, "20160", intIn(1, math.MaxInt32), "How long offsets are kept once their group is empty."},
	{"replica.lag.time.max.ms", kmsg.ConfigTypeLong, "30000", intIn(1, math.MaxInt32), "How long a replica may be behind its leader, or silent, before it is no longer in sync."},
}

// throttleSettings are settings of brokers that Kafka's tools set and unset
// around a reassignment.
var throttleSettings = [...]setting{
	{"follower.replication.throttled.rate", kmsg.ConfigTypeLong, maxLong, "follower.replication.throttled.rate", intIn(0, math.MaxInt64), "Bytes that replicas which aren't in sync take in in a second at most, of those in follower.replication.throttled.replicas."},
	{"leader.replication.throttled.rate", kmsg.ConfigTypeLong, maxLong, "leader.replication.throttled.rate", intIn(0, math.MaxInt64), "Bytes that replicas which aren't in sync are sent in a second at most, of those in leader.replication.throttled.replicas."},
	{"replica.alter.log.dirs.io.max.bytes.per.second", kmsg.ConfigTypeLong, maxLong, "replica.alter.log.dirs.io.max.bytes.per.second", intIn(0, math.MaxInt64), "Kept for Kafka's tools; without effect here: there is one data directory."},
}

// isRunningSetting tells of a setting that is made while brokers run, not at the
// start of one: a throttle, or what counts for the whole cluster.
func isRunningSetting(name string) bool {
	_, whole := findClusterSetting(name)
	return whole || slices.ContainsFunc(throttleSettings[:], func(s setting) bool { return s.name == name })
}

func findStartSetting(name string) (*startSetting, bool) {
	i, ok := slices.BinarySearchFunc(startSettings[:], name, func(s startSetting, name string) int { return strings.Compare(s.name, name) })
	if !ok {
		return nil, false
	}
	return &startSettings[i], true
}

// startValue is what a setting of startSettings has.
func (c *Config) startValue(name string) string {
	if v, ok := c.Defaults[name]; ok {
		return strings.TrimSpace(v)
	}
	s, _ := findStartSetting(name) // one of the table's names
	return s.value
}

// groupSettings are those of the group coordinator.
func (c *Config) groupSettings() group.Settings {
	number := func(name string) int {
		n, _ := strconv.ParseInt(c.startValue(name), 10, 64) // checked at the start
		return int(n)
	}
	millis := func(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }
	s := group.Settings{
		InitialDelay:  millis("group.initial.rebalance.delay.ms"),
		MinSession:    millis("group.min.session.timeout.ms"),
		MaxSession:    millis("group.max.session.timeout.ms"),
		MaxSize:       number("group.max.size"),
		MaxMetadata:   number("offset.metadata.max.bytes"),
		Retention:     time.Duration(number("offsets.retention.minutes")) * time.Minute,
		CheckInterval: millis("offsets.retention.check.interval.ms"),
		CommitTimeout: millis("offsets.commit.timeout.ms"),
	}
	if s.InitialDelay == 0 {
		s.InitialDelay = -1 // none
	}
	return s
}

// lagMax is how long a replica may be behind and in sync.
func (c *Config) lagMax() time.Duration {
	ms, _ := strconv.ParseInt(c.startValue("replica.lag.time.max.ms"), 10, 64) // checked at the start
	return time.Duration(ms) * time.Millisecond
}

// cleanSettings are those of compaction: bytes of memory, and bytes a second, 0
// for no bound.
func (c *Config) cleanSettings() (memory, rate int64) {
	memory, _ = strconv.ParseInt(c.startValue("log.cleaner.dedupe.buffer.size"), 10, 64) // both checked at the start
	perSecond, _ := strconv.ParseFloat(c.startValue("log.cleaner.io.max.bytes.per.second"), 64)
	if perSecond < math.MaxInt64 {
		rate = int64(perSecond)
	}
	return memory, rate
}

// fixedSetting is a setting that describes the broker and can't be chosen, or
// not here.
type fixedSetting struct {
	name, value string
	source      kmsg.ConfigSource
	kind        kmsg.ConfigType
	doc         string
}

// fixedSettings are those a start decides by other means than Config.Defaults,
// and limits that never change but that clients' authors look for.
func (b *Broker) fixedSettings() []fixedSetting {
	const (
		static   = kmsg.ConfigSourceStaticBrokerConfig
		standard = kmsg.ConfigSourceDefaultConfig
	)
	node := strconv.Itoa(int(b.nodeID))
	fixed := []fixedSetting{
		{"advertised.listeners", clientListener + "://" + b.Advertised(), static, kmsg.ConfigTypeList, "Where clients connect to."},
		{"broker.id", node, static, kmsg.ConfigTypeInt, "The node's id."},
		{"connections.max.idle.ms", "600000", standard, kmsg.ConfigTypeLong, "Time without a request after which a connection is closed."},
		{"delete.topic.enable", "true", standard, kmsg.ConfigTypeBoolean, "Whether topics can be deleted."},
		{"group.coordinator.rebalance.protocols", "classic", standard, kmsg.ConfigTypeList, "Kinds of groups."},
		{"listeners", clientListener + "://" + b.bound, static, kmsg.ConfigTypeList, "Where the broker listens."},
		{"log.cleaner.backoff.ms", strconv.FormatInt(tickEvery.Milliseconds(), 10), standard, kmsg.ConfigTypeLong, "How often logs are looked through for what is to be compacted."},
		{"log.cleaner.enable", "true", standard, kmsg.ConfigTypeBoolean, "Whether logs are compacted."},
		{"log.cleaner.threads", "1", standard, kmsg.ConfigTypeInt, "Logs compacted at a time."},
		{"log.dirs", b.dataDirectory(), static, kmsg.ConfigTypeList, "The data directory."},
		{"log.retention.check.interval.ms", strconv.FormatInt(tickEvery.Milliseconds(), 10), standard, kmsg.ConfigTypeLong, "How often logs are looked through for what retention deletes."},
		{"max.request.partition.size.limit", strconv.Itoa(partitionLimit), standard, kmsg.ConfigTypeInt, "Most partitions in an answer to DescribeTopicPartitions."},
		{"node.id", node, static, kmsg.ConfigTypeInt, "The node's id."},
		{"offsets.topic.num.partitions", strconv.Itoa(offsetsPartitions), standard, kmsg.ConfigTypeInt, "Partitions of " + offsetsTopic + "."},
		{"offsets.topic.segment.bytes", offsetsSegment, standard, kmsg.ConfigTypeInt, "Size at which a new segment of " + offsetsTopic + " is begun."},
		{"process.roles", "broker,controller", static, kmsg.ConfigTypeList, "What the node does."},
		{"producer.id.expiration.ms", "86400000", standard, kmsg.ConfigTypeInt, "Time after which a silent producer is forgotten."},
		{"socket.request.max.bytes", strconv.Itoa(produceBytes), standard, kmsg.ConfigTypeInt, "Longest request."},
	}
	if b.config.Rack != "" {
		fixed = append(fixed, fixedSetting{"broker.rack", b.config.Rack, static, kmsg.ConfigTypeString, "The rack the node is in."})
	}
	return fixed
}
