package log

import (
	"log/slog"
	"math"
	"time"

	"sawlog/offsets"
)

// Config is what a topic's settings mean to one log. Start from DefaultConfig:
// the zero value flushes every append.
type Config struct {
	// SegmentBytes ends a segment by size; default 1 GiB (segment.bytes).
	SegmentBytes int64
	// SegmentMs ends a segment by age in milliseconds of the broker's clock;
	// default 7 days (segment.ms).
	SegmentMs int64
	// RetentionMs deletes closed segments by their greatest timestamp; default
	// 7 days, -1 keeps them (retention.ms).
	RetentionMs int64
	// RetentionBytes deletes the oldest segments above this size; default -1
	// keeps them (retention.bytes).
	RetentionBytes int64
	// IndexBytes ends a segment by the size of either index; default 10 MiB, 0
	// is no bound (segment.index.bytes).
	IndexBytes int64
	// IndexInterval is the distance of index entries in bytes; default 4096
	// (index.interval.bytes).
	IndexInterval int
	// MaxBatchBytes refuses larger batches of clients; default 1 MiB and 12
	// bytes (max.message.bytes).
	MaxBatchBytes int
	// FlushMessages and FlushMs sync after that many records or milliseconds;
	// 1 and 0 sync before Append returns. Default: never (flush.messages,
	// flush.ms).
	FlushMessages, FlushMs int64
	// Compact and Delete are cleanup.policy; default Delete alone.
	Compact, Delete bool
	// MinCleanableRatio is the share of a log's bytes not yet compacted above
	// which it is compacted; default 0.5 (min.cleanable.dirty.ratio).
	MinCleanableRatio float64
	// MinCompactionLagMs keeps younger records from compaction; default 0
	// (min.compaction.lag.ms).
	MinCompactionLagMs int64
	// MaxCompactionLagMs has older records compacted however few they are;
	// default never (max.compaction.lag.ms).
	MaxCompactionLagMs int64
	// DeleteRetentionMs is how long compaction keeps tombstones once it has
	// met them; default 1 day (delete.retention.ms).
	DeleteRetentionMs int64
	// LogAppendTime stamps batches with the broker's time
	// (message.timestamp.type).
	LogAppendTime bool
	// Codec is "producer" or the codec the broker recodes batches to before
	// they come here (compression.type).
	Codec string
}

// DefaultConfig returns Kafka's defaults.
func DefaultConfig() Config {
	const week = 7 * 24 * 60 * 60 * 1000
	return Config{
		SegmentBytes: 1 << 30, SegmentMs: week,
		RetentionMs: week, RetentionBytes: -1,
		IndexBytes: 10 << 20, IndexInterval: 4096, MaxBatchBytes: 1<<20 + 12,
		FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64,
		Delete: true, DeleteRetentionMs: 24 * 60 * 60 * 1000,
		MinCleanableRatio: 0.5, MaxCompactionLagMs: math.MaxInt64,
		Codec: "producer",
	}
}

// flushNow tells whether an append must be synced before it is acknowledged.
func (c *Config) flushNow() bool { return c.FlushMessages <= 1 || c.FlushMs <= 0 }

// lagging tells whether max.compaction.lag.ms asks for anything.
func (c *Config) lagging() bool { return c.Compact && c.MaxCompactionLagMs < math.MaxInt64 }

// rollMs is the age at which a segment ends: of a compacted log also that at
// which its records must be compacted, which active segments are not (KIP-354).
func (c *Config) rollMs() int64 {
	if c.lagging() && c.MaxCompactionLagMs > 0 {
		return min(c.SegmentMs, c.MaxCompactionLagMs)
	}
	return c.SegmentMs
}

// DiskConfig is the setting of one data directory.
type DiskConfig struct {
	// Logger is told what recovery found and retention removed; nil is silent.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// MaxOpenFiles bounds the segment and index files kept open; default half
	// of what the process may open. Regions in flight may exceed it.
	MaxOpenFiles int
	// BootID names this run of the kernel; default is the kernel's own.
	BootID string
	// ProducerExpiry forgets producers that have been silent; default 24 h
	// (producer.id.expiration.ms).
	ProducerExpiry time.Duration
	// StrayDelay is how long folders put aside are kept; default 7 days.
	StrayDelay time.Duration
	// BallastBytes is disk space kept for what must be written when the disk is
	// full; default 0 keeps none.
	BallastBytes int64
	// Hold names the first offset of a log that retention must keep and
	// compaction must leave as it is, since a load job has yet to read it, or
	// NoHold; nil holds nothing.
	Hold func(*Log) offsets.Offset
	// Committed names the offset of a log below which compaction may go: what
	// is above may yet be truncated, or aborted. Nil is the end of the log.
	Committed func(*Log) offsets.Offset
	// CleanMemory bounds the map of keys of compaction in bytes, 24 a key;
	// default 128 MiB (log.cleaner.dedupe.buffer.size).
	CleanMemory int64
	// CleanBytesPerSecond bounds what compaction reads and writes; default 0
	// is no bound (log.cleaner.io.max.bytes.per.second).
	CleanBytesPerSecond int64
}

// NoHold lets retention delete, and compaction change, every closed segment.
const NoHold = offsets.Offset(math.MaxInt64)

func (c *DiskConfig) fill() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxOpenFiles <= 0 {
		c.MaxOpenFiles = defaultOpenFiles()
	}
	if c.BootID == "" {
		c.BootID = kernelBootID()
	}
	if c.ProducerExpiry <= 0 {
		c.ProducerExpiry = 24 * time.Hour
	}
	if c.StrayDelay <= 0 {
		c.StrayDelay = 7 * 24 * time.Hour
	}
	if c.CleanMemory <= 0 {
		c.CleanMemory = 128 << 20
	}
}
