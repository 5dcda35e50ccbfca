package broker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
)

// setting is one configuration of a topic, under Kafka's names.
type setting struct {
	name   string
	kind   kmsg.ConfigType
	value  string // default
	broker string // the broker-wide name its default may be set by
	check  func(string) error
	doc    string
}

const maxLong = "9223372036854775807"

// topicSettings is every configuration a topic has, in ascending order of name.
var topicSettings = [...]setting{
	{"cleanup.policy", kmsg.ConfigTypeList, "delete", "log.cleanup.policy", listOf("compact", "delete"), "What becomes of old segments: deleted by retention, compacted by key, or both."},
	{"compression.gzip.level", kmsg.ConfigTypeInt, "-1", "compression.gzip.level", gzipLevel, "Level when the broker compresses with gzip; -1 is the codec's default."},
	{"compression.lz4.level", kmsg.ConfigTypeInt, "9", "compression.lz4.level", intIn(1, 17), "Level when the broker compresses with lz4."},
	{"compression.type", kmsg.ConfigTypeString, "producer", "compression.type", oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "Codec of the stored batches; producer keeps what was sent."},
	{"compression.zstd.level", kmsg.ConfigTypeInt, "3", "compression.zstd.level", intIn(-131072, 22), "Level when the broker compresses with zstd."},
	{"delete.retention.ms", kmsg.ConfigTypeLong, "86400000", "log.cleaner.delete.retention.ms", intIn(0, math.MaxInt64), "How long a compacted topic keeps tombstones."},
	{"errors.deadletterqueue.group.enable", kmsg.ConfigTypeBoolean, "false", "", isBool, "Kept for Kafka's tools; without effect here: there are no share groups."},
	{"file.delete.delay.ms", kmsg.ConfigTypeLong, "60000", "log.segment.delete.delay.ms", intIn(0, math.MaxInt64), "Kept for Kafka's tools; without effect here: a file goes when its last reader has done."},
	{"flush.messages", kmsg.ConfigTypeLong, maxLong, "log.flush.interval.messages", intIn(1, math.MaxInt64), "Records after which the log is forced to disk; 1 forces before each acknowledgement."},
	{"flush.ms", kmsg.ConfigTypeLong, "1000", "log.flush.interval.ms", intIn(0, math.MaxInt64), "Time after which the log is forced to disk; 0 forces before each acknowledgement. The default holds where there is one replica."},
	{"follower.replication.throttled.replicas", kmsg.ConfigTypeList, "", "", throttledReplicas, "Replicas that follower.replication.throttled.rate of their brokers holds up while they aren't in sync: PARTITION:BROKER,… or *."},
	{"index.interval.bytes", kmsg.ConfigTypeInt, "4096", "log.index.interval.bytes", intIn(0, math.MaxInt32), "Bytes of log between two index entries."},
	{"leader.replication.throttled.replicas", kmsg.ConfigTypeList, "", "", throttledReplicas, "Leaders that leader.replication.throttled.rate of their brokers holds up for followers that aren't in sync: PARTITION:BROKER,… or *."},
	{"local.retention.bytes", kmsg.ConfigTypeLong, "-2", "log.local.retention.bytes", intIn(-2, math.MaxInt64), "Kept for Kafka's tools; without effect here: there is no tiered storage."},
	{"local.retention.ms", kmsg.ConfigTypeLong, "-2", "log.local.retention.ms", intIn(-2, math.MaxInt64), "Kept for Kafka's tools; without effect here: there is no tiered storage."},
	{"max.compaction.lag.ms", kmsg.ConfigTypeLong, maxLong, "log.cleaner.max.compaction.lag.ms", intIn(1, math.MaxInt64), "How long a record may stay out of compaction."},
	{"max.decompressed.message.bytes", kmsg.ConfigTypeInt, strconv.Itoa(record.DefaultMaxDecompressed), "max.decompressed.message.bytes", intIn(1, math.MaxInt32), "Longest record batch once it is decompressed."},
	{"max.message.bytes", kmsg.ConfigTypeInt, "1048588", "message.max.bytes", intIn(0, math.MaxInt32), "Longest record batch, as it is sent."},
	{"message.timestamp.after.max.ms", kmsg.ConfigTypeLong, "3600000", "log.message.timestamp.after.max.ms", intIn(0, math.MaxInt64), "How far a record's time may lie ahead of the broker's."},
	{"message.timestamp.before.max.ms", kmsg.ConfigTypeLong, maxLong, "log.message.timestamp.before.max.ms", intIn(0, math.MaxInt64), "How far a record's time may lie behind the broker's."},
	{"message.timestamp.type", kmsg.ConfigTypeString, "CreateTime", "log.message.timestamp.type", oneOf("CreateTime", "LogAppendTime"), "Whether records carry the producer's time or the broker's."},
	{"min.cleanable.dirty.ratio", kmsg.ConfigTypeDouble, "0.5", "log.cleaner.min.cleanable.ratio", floatIn(0, 1), "Share of a log not yet compacted above which it is."},
	{"min.compaction.lag.ms", kmsg.ConfigTypeLong, "0", "log.cleaner.min.compaction.lag.ms", intIn(0, math.MaxInt64), "How long a record stays out of compaction."},
	{"min.insync.replicas", kmsg.ConfigTypeInt, "2", "min.insync.replicas", intIn(1, math.MaxInt32), "Replicas that must hold a record before acks=all is answered; never more than there are."},
	{"preallocate", kmsg.ConfigTypeBoolean, "false", "log.preallocate", isBool, "Kept for Kafka's tools; without effect here: files are always given room ahead."},
	{"remote.copy.lag.bytes", kmsg.ConfigTypeLong, "-1", "log.remote.copy.lag.bytes", intIn(-1, math.MaxInt64), "Kept for Kafka's tools; without effect here: there is no tiered storage."},
	{"remote.copy.lag.ms", kmsg.ConfigTypeLong, "0", "log.remote.copy.lag.ms", intIn(-1, math.MaxInt64), "Kept for Kafka's tools; without effect here: there is no tiered storage."},
	{"remote.log.copy.disable", kmsg.ConfigTypeBoolean, "false", "", isBool, "Kept for Kafka's tools; without effect here: there is no tiered storage."},
	{"remote.log.delete.on.disable", kmsg.ConfigTypeBoolean, "false", "", isBool, "Kept for Kafka's tools; without effect here: there is no tiered storage."},
	{"remote.storage.enable", kmsg.ConfigTypeBoolean, "false", "", noTieredStorage, "Whether old segments go to another storage; there is none, so it can't be set."},
	{"retention.bytes", kmsg.ConfigTypeLong, "-1", "log.retention.bytes", intIn(math.MinInt64, math.MaxInt64), "Size of a partition above which old segments are deleted; below 0 is no limit."},
	{"retention.hold.max.bytes", kmsg.ConfigTypeLong, "-1", "", intIn(-1, math.MaxInt64), "Size of a partition above which retention.hold.* keeps nothing; -1 is no limit."},
	{"retention.hold.max.ms", kmsg.ConfigTypeLong, "1209600000", "", intIn(-1, math.MaxInt64), "Age of records that retention.hold.* no longer keeps; -1 is no limit."},
	{"retention.ms", kmsg.ConfigTypeLong, "604800000", "log.retention.ms", intIn(-1, math.MaxInt64), "Age at which a segment is deleted; -1 is never."},
	{"segment.bytes", kmsg.ConfigTypeInt, "1073741824", "log.segment.bytes", intIn(14, math.MaxInt32), "Size at which a new segment is begun."},
	{"segment.index.bytes", kmsg.ConfigTypeInt, "10485760", "log.index.size.max.bytes", intIn(4, math.MaxInt32), "Size of an index at which a new segment is begun."},
	{"segment.jitter.ms", kmsg.ConfigTypeLong, "0", "log.roll.jitter.ms", intIn(0, math.MaxInt64), "Kept for Kafka's tools; without effect here: segments roll at their age."},
	{"segment.ms", kmsg.ConfigTypeLong, "604800000", "log.roll.ms", intIn(1, math.MaxInt64), "Age at which a new segment is begun."},
	{"unclean.leader.election.enable", kmsg.ConfigTypeBoolean, "false", "unclean.leader.election.enable", isBool, "Whether a replica that isn't in sync may lead when no other is left; loses records."},
}

// holdPrefix starts the configurations by which load jobs keep records past
// retention: "retention.hold.JOB" = "PARTITION:OFFSET,…,max.ms:AGE", where the
// age, which may be left out, bounds what is kept as retention.hold.max.ms does.
const holdPrefix = "retention.hold."

func findSetting(name string) (*setting, bool) {
	i, ok := slices.BinarySearchFunc(topicSettings[:], name, func(s setting, name string) int { return strings.Compare(s.name, name) })
	if !ok {
		return nil, false
	}
	return &topicSettings[i], true
}

// lastSynonym is the broker-wide setting that gives a configuration its default
// where its own name has none: Kafka tells of it only beside values that count
// more.
func (s *setting) lastSynonym() (name, value string, ok bool) {
	switch s.name {
	case "retention.ms":
		return "log.retention.hours", "168", true
	case "segment.ms":
		return "log.roll.hours", "168", true
	case "segment.jitter.ms":
		return "log.roll.jitter.hours", "0", true
	}
	return "", "", false
}

// checkTopicConfigs judges the configurations a topic would have.
func checkTopicConfigs(configs map[string]string) error {
	for name, value := range configs {
		s, ok := findSetting(name)
		if !ok {
			if strings.HasPrefix(name, holdPrefix) {
				if _, _, err := parseHold(value); err != nil {
					return invalidValue(name, value, err)
				}
				continue
			}
			return refuse(kerr.InvalidConfig, "Unknown topic config name: %s", name)
		}
		if err := s.judge(name, value); err != nil {
			return err
		}
	}
	return checkLags(configs)
}

// checkLags refuses records that must be compacted before they may be (KIP-354).
func checkLags(configs map[string]string) error {
	value := func(name string) int64 {
		s, _ := findSetting(name)
		v, ok := configs[name]
		if !ok {
			v = s.value
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64) // judged before
		return n
	}
	if low, high := value("min.compaction.lag.ms"), value("max.compaction.lag.ms"); low > high {
		return refuse(kerr.InvalidConfig, "conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", low, high)
	}
	return nil
}

// judge tells whether a value may be set, under the topic's or the broker's
// name.
func (s *setting) judge(name, value string) error {
	return judge(name, s.kind, s.check, value)
}

// kafkaWords is what Kafka says of a value.
type kafkaWords string

func (w kafkaWords) Error() string { return string(w) }

func words(format string, args ...any) error { return kafkaWords(fmt.Sprintf(format, args...)) }

// errNotNumber says that a value isn't one of its type.
var errNotNumber = errors.New("not a number")

func judge(name string, kind kmsg.ConfigType, check func(string) error, value string) error {
	err := check(strings.TrimSpace(value))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotNumber):
		err = words("Not a number of type %s", kind)
	case errors.Is(err, kerr.InvalidConfig):
		return err // it says all there is to say
	}
	return invalidValue(name, value, err)
}

func invalidValue(name, value string, err error) error {
	return refuse(kerr.InvalidConfig, "Invalid value %s for configuration %s: %s", strings.TrimSpace(value), name, err)
}

func intIn(low, high int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil || high <= math.MaxInt32 && n != int64(int32(n)):
			return errNotNumber
		case n < low:
			return words("Value must be at least %d", low)
		case n > high:
			return words("Value must be no more than %d", high)
		}
		return nil
	}
}

func floatIn(low, high float64) func(string) error {
	return func(v string) error {
		f, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil || math.IsNaN(f):
			return errNotNumber
		case f < low:
			return words("Value must be at least %v", low)
		case f > high:
			return words("Value must be no more than %v", high)
		}
		return nil
	}
}

func gzipLevel(v string) error {
	if n, err := strconv.ParseInt(v, 10, 32); err != nil {
		return errNotNumber
	} else if n != -1 && (n < 1 || n > 9) {
		return words("Value must be between 1 and 9 or equal to -1")
	}
	return nil
}

func isBool(v string) error {
	if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
		return words("Expected value to be either true or false")
	}
	return nil
}

func noTieredStorage(v string) error {
	if strings.EqualFold(v, "true") {
		return refuse(kerr.InvalidConfig, "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return isBool(v)
}

// throttledReplicas is "PARTITION:BROKER,…", or "*" for all.
func throttledReplicas(v string) error {
	for _, part := range splitList(v) {
		partition, broker, ok := strings.Cut(part, ":")
		_, err1 := strconv.ParseUint(partition, 10, 31)
		_, err2 := strconv.ParseUint(broker, 10, 31)
		if v != "*" && (!ok || err1 != nil || err2 != nil) {
			return errors.New("must be '*' or a list of [partitionId]:[brokerId]")
		}
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(allowed, v) {
			return words("String must be one of: %s", strings.Join(allowed, ", "))
		}
		return nil
	}
}

func listOf(allowed ...string) func(string) error {
	one := oneOf(allowed...)
	return func(v string) error {
		for _, part := range splitList(v) {
			if err := one(part); err != nil {
				return err
			}
		}
		return nil
	}
}

func splitList(v string) []string {
	var parts []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// parseHold reads "0:1200,3:88,max.ms:86400000": partition → first offset to
// keep, and the age up to which records are kept, -1 where none is given.
func parseHold(v string) (held map[int32]int64, maxMs int64, err error) {
	held, maxMs = map[int32]int64{}, -1
	for _, part := range splitList(v) {
		key, value, ok := strings.Cut(part, ":")
		n, errN := strconv.ParseInt(value, 10, 64)
		ok = ok && errN == nil && n >= 0
		if key == "max.ms" && ok {
			maxMs = n
			continue
		}
		partition, errP := strconv.ParseInt(key, 10, 32)
		if !ok || errP != nil || partition < 0 {
			return nil, -1, fmt.Errorf("%q: want PARTITION:OFFSET, or max.ms:AGE", part)
		}
		held[int32(partition)] = n
	}
	return held, maxMs, nil
}

// codecOf reads compression.type; ok is false for producer.
func codecOf(v string) (codec record.Codec, ok bool) {
	switch v {
	case "uncompressed":
		return record.None, true
	case "gzip":
		return record.Gzip, true
	case "snappy":
		return record.Snappy, true
	case "lz4":
		return record.LZ4, true
	case "zstd":
		return record.Zstd, true
	}
	return record.None, false
}
