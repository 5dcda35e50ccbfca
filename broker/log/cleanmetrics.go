package log

import (
	"math"
	"sync/atomic"
	"time"
)

// cleanCounts counts the work of compaction since the disk was opened.
type cleanCounts struct {
	runs     atomic.Int64
	failures atomic.Int64
	read     atomic.Int64 // bytes
	written  atomic.Int64 // bytes
	removed  atomic.Int64 // records
	kept     atomic.Int64 // records
	nanos    atomic.Int64
	dirtiest atomic.Uint64 // bits of a float64
}

// CleanMetrics are the numbers of compaction at one moment. Counters begin when
// the disk is opened.
type CleanMetrics struct {
	Runs           int64 // logs compacted
	Failures       int64 // runs given up
	ReadBytes      int64
	WrittenBytes   int64
	RemovedRecords int64
	KeptRecords    int64 // of the logs compacted; again in each run
	Busy           time.Duration
	DirtiestRatio  float64 // greatest share of a log that is not compacted yet, when last looked
}

// CleanMetrics reads the numbers.
func (d *Disk) CleanMetrics() CleanMetrics {
	c := &d.cleaner.counts
	return CleanMetrics{
		Runs: c.runs.Load(), Failures: c.failures.Load(),
		ReadBytes: c.read.Load(), WrittenBytes: c.written.Load(),
		RemovedRecords: c.removed.Load(), KeptRecords: c.kept.Load(),
		Busy:          time.Duration(c.nanos.Load()),
		DirtiestRatio: math.Float64frombits(c.dirtiest.Load()),
	}
}
