package replica

import (
	"slices"
	"testing"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// tenOf is a batch of ten records as a leader has it.
func tenOf(t *testing.T, base offsets.Offset) []byte {
	t.Helper()
	w := record.NewBuilder(record.None, 0)
	for range 10 {
		w.Append(record.Record{Timestamp: 1, Value: []byte("v")})
	}
	b, err := w.Batch()
	if err != nil {
		t.Fatal(err)
	}
	b.Stamp(base, 1)
	return b
}

// A leader's log may begin within a batch. A log that begins anew there takes the
// whole batch, and begins where the leader's does; one that has records takes
// nothing of before its end, and nothing damaged is taken.
func TestFollowFromWithinABatch(t *testing.T) {
	damaged := tenOf(t, 10)
	damaged[len(damaged)-1] ^= 1
	for _, tc := range []struct {
		name    string
		begins  offsets.Offset
		has     []byte // before
		sent    []byte
		start   offsets.Offset // of the leader
		from    offsets.Offset // where the log begins and ends then
		to      offsets.Offset
		refused bool
	}{
		{"within the first batch", 5, nil, tenOf(t, 0), 5, 5, 10, false},
		{"at its last record", 19, nil, tenOf(t, 10), 19, 19, 20, false},
		{"two batches", 15, nil, slices.Concat(tenOf(t, 10), tenOf(t, 20)), 15, 15, 30, false},
		{"at its begin", 10, nil, tenOf(t, 10), 10, 10, 20, false},
		{"a batch that ends before", 20, nil, tenOf(t, 10), 20, 20, 20, true},
		{"damaged", 15, nil, damaged, 15, 15, 15, true},
		{"records are there", 0, tenOf(t, 0), tenOf(t, 5), 0, 0, 10, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := replicaOne(t)
			p.Assign(assignment(2, 1, 1, 1, 2))
			tell := func(a Answer) error {
				at, follows := p.Position()
				if !follows {
					t.Fatal("it follows nobody")
				}
				_, err := p.Follow(at, a)
				return err
			}
			if tc.begins > 0 {
				if err := tell(Answer{OutOfRange: true, Start: tc.begins, End: 100}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.has != nil {
				if err := tell(Answer{Records: tc.has, HighWatermark: 10}); err != nil {
					t.Fatal(err)
				}
			}
			if err := tell(Answer{Start: tc.start, HighWatermark: 100, Records: tc.sent}); (err != nil) != tc.refused {
				t.Errorf("taken in with %v", err)
			}
			at, _ := p.Position()
			if l := p.Log(); l.Start() != tc.from || l.End() != tc.to || at.At != tc.to || at.Start != tc.from {
				t.Errorf("the log is %d..%d, want %d..%d; it goes on with %+v", l.Start(), l.End(), tc.from, tc.to, at)
			}
		})
	}
}
