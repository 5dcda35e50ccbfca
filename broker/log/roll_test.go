package log

import (
	"testing"

	"sawlog/broker/record"
)

// TestRollSnapshot: the snapshot at a segment's base holds nothing of the batch
// that made the log roll, for a power cut may take that batch.
func TestRollSnapshot(t *testing.T) {
	c := small()
	_, d, l := onMem(t, c)
	seq := int32(0)
	for len(l.look().segments) < 3 {
		out, err := l.Append([]record.Batch{
			producedBatch(t, int(l.End()), 3, 7, 0, seq), producedBatch(t, int(l.End()), 2, 7, 0, seq+3), producedBatch(t, int(l.End()), 2, 8, 0, seq/5*2),
		}, Append{Epoch: 1, Now: testNow})
		must(t, err)
		if out[0].Duplicate {
			t.Fatalf("append of sequence %d: %+v", seq, out)
		}
		seq += 5
	}
	for _, s := range l.look().segments[1:] {
		ps, err := l.readSnapshot(s.base)
		must(t, err)
		for id, p := range ps.byID {
			if p.n == 0 || p.batches[p.n-1].last >= s.base {
				t.Errorf("snapshot at %d knows batches %+v of producer %d", s.base, p.batches[:p.n], id)
			}
		}
		if len(ps.byID) != 2 {
			t.Errorf("snapshot at %d knows %d producers", s.base, len(ps.byID))
		}
	}
	must(t, d.Close())
}
