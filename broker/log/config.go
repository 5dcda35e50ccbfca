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
	// Compact and Delete are cleanup.policy; default Delete alone. A log that
	// is only compacted is kept whole.
	Compact, Delete bool
	// MinCompactionLagMs and DeleteRetentionMs are carried for compaction.
	MinCompactionLagMs, DeleteRetentionMs int64
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
		IndexInterval: 4096, MaxBatchBytes: 1<<20 + 12,
		FlushMessages: math.MaxInt64, FlushMs: math.MaxInt64,
		Delete: true, DeleteRetentionMs: 24 * 60 * 60 * 1000,
		Codec: "producer",
	}
}

// flushNow tells whether an append must be synced before it is acknowledged.
func (c *Config) flushNow() bool { return c.FlushMessages <= 1 || c.FlushMs <= 0 }

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
	// Hold names the first offset of a log that retention must keep, or
	// NoHold; nil holds nothing.
	Hold func(*Log) offsets.Offset
}

// NoHold lets retention delete every closed segment.
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
}
