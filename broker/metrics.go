package broker

import (
	"sync/atomic"
	"time"
)

// metrics counts the broker's work.
type metrics struct {
	produceRequests atomic.Int64
	produceBytes    atomic.Int64 // of batches appended
	produceBatches  atomic.Int64
	produceErrors   atomic.Int64 // partitions refused
	fetchRequests   atomic.Int64
	fetchBytes      atomic.Int64 // of batches sent
	fetchBatchBytes atomic.Int64 // of fetchBytes, those for load tasks
	fetchBatchRest  atomic.Int64 // nanoseconds that load tasks were told to rest
	fetchParked     atomic.Int64 // fetches that had to wait

	changes changes
}

// Snapshot is the broker's numbers at one moment. Counters begin at the start
// of the process.
type Snapshot struct {
	Topics          int64
	Partitions      int64
	LogBytes        int64
	Connections     int64 // now
	Accepted        int64
	Refused         int64 // over a connection cap
	Requests        int64
	BytesIn         int64
	BytesOut        int64
	SendfileBytes   int64
	PassingBytes    int64
	BadFrames       int64
	Panics          int64
	ShortSendfiles  int64
	ProduceRequests int64
	ProduceBytes    int64
	ProduceBatches  int64
	ProduceErrors   int64
	FetchRequests   int64
	FetchBytes      int64
	FetchBatchBytes int64
	FetchBatchRest  time.Duration // that load tasks were told to rest, all together
	FetchBatchLimit int64         // bytes a second that they may be sent; 0 = no limit
	FetchParked     int64
	FetchSessions   int64 // open now
	SessionParts    int64 // partitions in them

	// Of compaction.
	CleanRuns     int64 // logs compacted
	CleanFailures int64
	CleanRead     int64 // bytes
	CleanWritten  int64 // bytes
	CleanRemoved  int64 // records
	CleanMillis   int64 // time it took
	DirtiestLog   int64 // percent not compacted of the dirtiest log, when last looked
}

// Metrics reads the numbers.
func (b *Broker) Metrics() Snapshot {
	w := b.server.Metrics()
	s := Snapshot{
		Connections:     w.Open.Load(),
		Accepted:        w.Accepted.Load(),
		Refused:         w.Refused.Load(),
		Requests:        w.Requests.Load(),
		BytesIn:         w.BytesIn.Load(),
		BytesOut:        w.BytesOut.Load(),
		SendfileBytes:   w.SendfileBytes.Load(),
		PassingBytes:    w.PassingBytes.Load(),
		BadFrames:       w.BadFrames.Load(),
		Panics:          w.Panics.Load(),
		ShortSendfiles:  w.ShortSendfiles.Load(),
		ProduceRequests: b.metrics.produceRequests.Load(),
		ProduceBytes:    b.metrics.produceBytes.Load(),
		ProduceBatches:  b.metrics.produceBatches.Load(),
		ProduceErrors:   b.metrics.produceErrors.Load(),
		FetchRequests:   b.metrics.fetchRequests.Load(),
		FetchBytes:      b.metrics.fetchBytes.Load(),
		FetchBatchBytes: b.metrics.fetchBatchBytes.Load(),
		FetchBatchRest:  time.Duration(b.metrics.fetchBatchRest.Load()),
		FetchBatchLimit: b.batch.limit(),
		FetchParked:     b.metrics.fetchParked.Load(),
	}
	s.FetchSessions, s.SessionParts = b.sessions.count()
	c := b.disk.CleanMetrics()
	s.CleanRuns, s.CleanFailures = c.Runs, c.Failures
	s.CleanRead, s.CleanWritten, s.CleanRemoved = c.ReadBytes, c.WrittenBytes, c.RemovedRecords
	s.CleanMillis, s.DirtiestLog = c.Busy.Milliseconds(), int64(100*c.DirtiestRatio)
	for _, t := range b.topics.all() {
		s.Topics++
		for _, p := range t.partitions {
			if p != nil {
				s.Partitions++
				s.LogBytes += p.Log().Size()
			}
		}
	}
	return s
}
