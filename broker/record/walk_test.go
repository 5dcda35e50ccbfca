package record

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestQuickAgreesWithNext reads sound and mutated records both ways: what quick
// takes, next reads as the same frame.
func TestQuickAgreesWithNext(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	some := func(most int) []byte {
		switch n := rng.IntN(most + 2); n {
		case 0:
			return nil
		default:
			return bytes.Repeat([]byte{byte(rng.Uint32())}, n-1)
		}
	}
	lengths := []int{0, 1, 20, 62, 63, 64, 200, 8190, 8191, 8192, 9000}
	quick := 0
	for range 200_000 {
		r := Record{Key: some(lengths[rng.IntN(6)]), Value: some(lengths[rng.IntN(len(lengths))])}
		if rng.IntN(8) == 0 {
			r.Headers = []Header{{Key: []byte("h"), Value: some(3)}}
		}
		lead := rng.IntN(3)
		b := appendRecord(make([]byte, lead), rng.Int64N(1<<rng.IntN(20)+1)-5, rng.IntN(1<<rng.IntN(15)+1), &r)
		if rng.IntN(2) == 0 {
			b = append(b, make([]byte, rng.IntN(20))...) // the record after it
		}
		for range rng.IntN(3) {
			b[lead+rng.IntN(min(len(b)-lead, 24))] ^= 1 << rng.IntN(8)
		}
		var got, want frame
		if !got.quick(b, lead) {
			continue
		}
		quick++
		if err := want.next(b, lead); err != nil {
			t.Fatalf("quick took % x, of which next says: %v", b[:min(len(b), 40)], err)
		}
		want.headers = got.headers // there are none: where they would begin does not matter
		if got != want {
			t.Fatalf("% x: quick reads %+v, next %+v", b[:min(len(b), 40)], got, want)
		}
	}
	if quick < 50_000 {
		t.Errorf("quick took only %d records", quick)
	}
}
