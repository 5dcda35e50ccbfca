// Package log keeps one data directory: the logs of all replicas on it.
package log

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/offsets"
)

type Config struct {
	SegmentBytes, SegmentMs, RetentionMs, RetentionBytes int64
	IndexInterval, MaxBatchBytes                         int
	FlushMessages, FlushMs                               int64
	Compact, Delete                                      bool
	MinCompactionLagMs, DeleteRetentionMs                int64
	LogAppendTime                                        bool
	Codec                                                string
}

func DefaultConfig() Config { panic("unwritten") }

type DiskConfig struct {
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// MaxOpenFiles bounds the segment files held open at a time; 0 is half of what the process may open.
	MaxOpenFiles int
	// BootID names this run of the kernel; empty reads /proc/sys/kernel/random/boot_id.
	BootID string
	// BootConfig gives the config of a log found at start; nil is DefaultConfig until SetConfig.
	Hold func(*Log) offsets.Offset
}

type Meta struct {
	Format      int
	ClusterID   string
	NodeID      offsets.BrokerID
	DirectoryID string
}

type Disk struct{}

func OpenDisk(fs vfs.FS, dir string, c DiskConfig) (*Disk, error) { panic("unwritten") }
func (d *Disk) Meta() Meta                                        { panic("unwritten") }
func (d *Disk) SetMeta(m Meta) error                              { panic("unwritten") }
func (d *Disk) Logs() []*Log                                      { panic("unwritten") }
func (d *Disk) Create(tp offsets.TopicPartition, id offsets.TopicID, c Config) (*Log, error) {
	panic("unwritten")
}
func (d *Disk) Delete(l *Log) error              { panic("unwritten") }
func (d *Disk) Stray(l *Log) error               { panic("unwritten") }
func (d *Disk) CleanStart() bool                 { panic("unwritten") }
func (d *Disk) SameBoot() bool                   { panic("unwritten") }
func (d *Disk) PreviousBrokerEpoch() int64       { panic("unwritten") }
func (d *Disk) SetBrokerEpoch(epoch int64) error { panic("unwritten") }
func (d *Disk) Tick(now time.Time) error         { panic("unwritten") }
func (d *Disk) Failed() <-chan error             { panic("unwritten") }
func (d *Disk) Close() error                     { panic("unwritten") }

// Assign records in one write that the logs' leaders have new epochs from their present ends on.
type Assignment struct {
	Log   *Log
	Epoch offsets.Epoch
}

func (d *Disk) Assign(as []Assignment) error { panic("unwritten") }

type Log struct{}

type Append struct {
	Epoch    offsets.Epoch
	Now      int64
	Internal bool
}

type Appended struct {
	First, Last offsets.Offset
	Timestamp   int64
	Duplicate   bool
}

type ReadResult struct {
	Regions []vfs.Region
	Bytes   int
	// First and Next: base offset of the first batch, offset after the last one.
	First, Next offsets.Offset
}

func (l *Log) TopicPartition() offsets.TopicPartition                      { panic("unwritten") }
func (l *Log) TopicID() offsets.TopicID                                    { panic("unwritten") }
func (l *Log) Config() Config                                              { panic("unwritten") }
func (l *Log) SetConfig(c Config)                                          { panic("unwritten") }
func (l *Log) Start() offsets.Offset                                       { panic("unwritten") }
func (l *Log) End() offsets.Offset                                         { panic("unwritten") }
func (l *Log) Epoch() offsets.Epoch                                        { panic("unwritten") }
func (l *Log) Append(batches []record.Batch, a Append) ([]Appended, error) { panic("unwritten") }
func (l *Log) AppendReplica(b []byte) error                                { panic("unwritten") }
func (l *Log) Read(at offsets.Offset, maxBytes int, end offsets.Offset, minOne bool) (ReadResult, error) {
	panic("unwritten")
}
func (l *Log) ReadBytes(at offsets.Offset, maxBytes int, end offsets.Offset) ([]byte, error) {
	panic("unwritten")
}
func (l *Log) OffsetForTime(ts int64, end offsets.Offset) (offsets.Offset, int64, offsets.Epoch, bool, error) {
	panic("unwritten")
}
func (l *Log) MaxTimestampOffset(end offsets.Offset) (offsets.Offset, int64, offsets.Epoch, bool, error) {
	panic("unwritten")
}
func (l *Log) EndOffsetFor(epoch offsets.Epoch) (offsets.Epoch, offsets.Offset) { panic("unwritten") }
func (l *Log) Truncate(to offsets.Offset) error                                 { panic("unwritten") }

// Reset drops all records and starts the log anew at an offset.
func (l *Log) Reset(to offsets.Offset) error         { panic("unwritten") }
func (l *Log) DeleteBefore(to offsets.Offset) error  { panic("unwritten") }
func (l *Log) Flush() error                          { panic("unwritten") }
func (l *Log) Size() int64                           { panic("unwritten") }
func (l *Log) FirstUnstable() (offsets.Offset, bool) { panic("unwritten") }

func Dump(fs vfs.FS, path string, fn func(line string) error) error { panic("unwritten") }

var (
	ErrOutOfOrderSequence   = errors.New("sequence out of order")
	ErrInvalidProducerEpoch = errors.New("producer epoch is old")
	ErrBatchTooLarge        = errors.New("batch too large")
	ErrNoSpace              = errors.New("no space left on the data directory")
	ErrFailed               = errors.New("data directory has failed")
	ErrClosed               = errors.New("log is closed")
)

// ErrOffsetOutOfRange is returned for offsets outside [Start, End].
type ErrOffsetOutOfRange struct{ At, Start, End offsets.Offset }

func (e *ErrOffsetOutOfRange) Error() string {
	return fmt.Sprintf("offset %d out of range %d..%d", e.At, e.Start, e.End)
}

// CorruptError names damaged bytes; Next is the first offset that can be read after them.
type CorruptError struct {
	Path string
	Pos  int64
	Next offsets.Offset
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s at %d: %v", e.Path, e.Pos, e.Err) }
func (e *CorruptError) Unwrap() error { return e.Err }
