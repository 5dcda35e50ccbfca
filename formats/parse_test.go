package formats

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTimesOfAllYears reads what dates and timestamps of every year there is look
// like as text, before the year 0 and after 9999 too.
func TestTimesOfAllYears(t *testing.T) {
	types := []*Type{{Kind: Date}}
	for _, unit := range []TimeUnit{Millis, Micros, Nanos} {
		types = append(types, &Type{Kind: Timestamp, Unit: unit}, &Type{Kind: Timestamp, Unit: unit, Local: true})
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, typ := range types {
		values := []int64{0, -1, 1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1}
		for _, year := range []int{-44, -1, 0, 1, 999, 9999, 10_000, 12_345, 99_999, 100_000} {
			at := time.Date(year, 2, 28, 23, 59, 59, 999_999_999, time.UTC)
			values = append(values, at.Unix()/86400, at.UnixMilli(), at.UnixMicro())
		}
		for range 3000 {
			values = append(values, int64(rnd.Uint64())>>rnd.IntN(60))
		}
		for _, v := range values {
			want := binary.LittleEndian.AppendUint64(nil, uint64(v))
			if typ.Kind == Date {
				v = int64(int32(v))
				want = want[:4]
			}
			text := typ.AppendInt(nil, v)
			if got, err := typ.AppendPlain(nil, text); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s %d is %s, and is read as %x, %v", typ, v, text, got, err)
			}
		}
	}
}

// TestTimesThatAreNone refuses text that is no time, or none of the type.
func TestTimesThatAreNone(t *testing.T) {
	ms, ns := &Type{Kind: Timestamp}, &Type{Kind: Timestamp, Unit: Nanos}
	for text, typ := range map[string]*Type{
		`"999-01-01T00:00:00.000Z"`: ms, `"+12345-01-01T00:00:00.000Z"`: ms, `"--044-01-01T00:00:00.000Z"`: ms, `"12345-02-30T00:00:00.000Z"`: ms,
		`"1234567890-01-01T00:00:00.000Z"`: ms, `"292278995-01-01T00:00:00.000Z"`: ms, `"-292275056-01-01T00:00:00.000Z"`: ms, `"12345"`: ms, `""`: ms, `"-"`: ms,
		`"2262-04-12T00:00:00Z"`: ns, `"1677-09-20T00:00:00Z"`: ns, `"12345-01-01T00:00:00Z"`: ns, `"5881581-01-01"`: {Kind: Date}, `"1a345-01-01"`: {Kind: Date},
	} {
		if got, err := typ.AppendPlain(nil, []byte(text)); err == nil {
			t.Errorf("%s is a %s: %x", text, typ, got)
		}
	}
}
