package log

import "sawlog/offsets"

// Producer is what a log remembers of a producer.
type Producer struct {
	ID            int64
	Epoch         int16
	LastSequence  int32          // -1 = it has written nothing in this epoch
	LastTimestamp int64          // ms
	TxnStart      offsets.Offset // of its open transaction; -1 = none
}

// Producers lists the producers the log remembers, in ascending order of id.
func (l *Log) Producers() []Producer {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Producer, 0, len(l.producers.byID))
	for _, id := range l.producers.ids() {
		p := l.producers.byID[id]
		sequence := int32(-1)
		if p.n > 0 {
			sequence = p.batches[p.n-1].lastSeq
		}
		out = append(out, Producer{id, p.epoch, sequence, p.lastTime, p.txnFirst})
	}
	return out
}
