package formats

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

const speedSchema = `{"type":"record","name":"View","fields":[
	{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"session","type":"string"},{"name":"user_id","type":"long"},
	{"name":"path","type":"string"},{"name":"status","type":"int"},{"name":"bytes","type":"long"},{"name":"referrer","type":["null","string"]},
	{"name":"ms","type":"double"}]}`

// sameRecords are records of eight columns, one with nulls, in JSON and in Avro.
func sameRecords(tb testing.TB, n int) (asJSON, asAvro [][]byte) {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		v := map[string]any{
			"ts": int64(1_700_000_000_000 + i), "session": fmt.Sprintf("%016x", rnd.Uint64()), "user_id": rnd.Int64N(1 << 40),
			"path": fmt.Sprintf("/shop/category-%d/product-%d", rnd.IntN(30), rnd.IntN(2000)), "status": int32(200 + rnd.IntN(3)*100),
			"bytes": rnd.Int64N(100_000), "referrer": any(nil), "ms": float64(rnd.IntN(100000)) / 64,
		}
		if rnd.IntN(10) > 0 {
			v["referrer"] = fmt.Sprintf("https://example.org/search?q=%d", rnd.IntN(500))
		}
		text, err := json.Marshal(v)
		if err != nil {
			tb.Fatal(err)
		}
		asJSON, asAvro = append(asJSON, text), append(asAvro, avroValue(tb, speedSchema, v))
	}
	return asJSON, asAvro
}

func speedDecoders(tb testing.TB) (s *Schema, ofJSON, ofAvro Decoder) {
	tb.Helper()
	oa := avroOptions(speedSchema)
	oa.Time = TimeOptions{Field: []string{"ts"}}
	s, err := oa.Base(nil)
	if err != nil {
		tb.Fatal(err)
	}
	if ofAvro, err = NewDecoder(s, oa); err != nil {
		tb.Fatal(err)
	}
	oj := Options{Value: "json", Metadata: []string{}, Time: TimeOptions{Field: []string{"ts"}, Format: "epoch_ms"}}
	if ofJSON, err = NewDecoder(s, oj); err != nil {
		tb.Fatal(err)
	}
	return s, ofJSON, ofAvro
}

func decodeAll(tb testing.TB, d Decoder, c *Columns, values [][]byte) {
	tb.Helper()
	c.Reset()
	m := Message{Timestamp: 1}
	for _, v := range values {
		m.Value = v
		if _, err := d.Append(c, &m); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestAvroAllocations holds that records cost nothing once columns have room.
func TestAvroAllocations(t *testing.T) {
	asJSON, asAvro := sameRecords(t, 1000)
	s, ofJSON, ofAvro := speedDecoders(t)
	a, b := NewColumns(s), NewColumns(s)
	decodeAll(t, ofJSON, a, asJSON)
	decodeAll(t, ofAvro, b, asAvro)
	if dump(a) != dump(b) {
		t.Fatal("the same records make other rows")
	}
	// decodeAll makes one message for all.
	if n := testing.AllocsPerRun(5, func() { decodeAll(t, ofAvro, b, asAvro) }); n > 1 {
		t.Errorf("%v allocations for 1000 records", n)
	}
}

// TestAvroNumbers holds numbers read as words to those read byte by byte, wherever
// they end, and however much stands behind them.
func TestAvroNumbers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		b := binary.AppendUvarint(nil, rnd.Uint64()>>rnd.IntN(64))
		if rnd.IntN(8) == 0 { // longer than need be
			b[len(b)-1] |= 0x80
			b = append(b, 0)
		}
		for range rnd.IntN(12) {
			b = append(b, byte(rnd.Uint32()))
		}
		if rnd.IntN(8) == 0 {
			b = b[:rnd.IntN(len(b)+1)]
		}
		r := avroReader{wireRow: wireRow{b: b}}
		v, end := r.long(0)
		want, wantEnd := r.longer(0)
		if v != want || end != wantEnd {
			t.Fatalf("%x: %d in %d bytes, want %d in %d", b, v, end, want, wantEnd)
		}
	}
}

// TestAvroIsFasterThanJSON holds Avro to half as many records again as JSON in the
// same CPU time. The least of many turns counts, which others on the machine
// hardly change: it is 1.62 to 1.67 times alone on two cores, 1.60 to 1.67 with three
// of this test at a time.
func TestAvroIsFasterThanJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("measures CPU time, which the race detector changes")
	}
	asJSON, asAvro := sameRecords(t, 2000)
	s, ofJSON, ofAvro := speedDecoders(t)
	c := NewColumns(s)
	spend := func(d Decoder, values [][]byte) float64 {
		start := cpuTime(t)
		decodeAll(t, d, c, values)
		return cpuTime(t) - start
	}
	asText, asBytes := spend(ofJSON, asJSON), spend(ofAvro, asAvro)
	for range 45 {
		asText, asBytes = min(asText, spend(ofJSON, asJSON)), min(asBytes, spend(ofAvro, asAvro))
	}
	t.Logf("%.2f times as fast", asText/asBytes)
	if asText < 1.5*asBytes {
		t.Errorf("Avro takes %.0f ns a record, JSON %.0f", asBytes*5e5, asText*5e5)
	}
}

// BenchmarkAvroAgainstJSON decodes the same records from both in turn, and
// reports how many times faster Avro is.
func BenchmarkAvroAgainstJSON(b *testing.B) {
	asJSON, asAvro := sameRecords(b, 5000)
	s, ofJSON, ofAvro := speedDecoders(b)
	c := NewColumns(s)
	decodeAll(b, ofJSON, c, asJSON)
	decodeAll(b, ofAvro, c, asAvro)
	var spent [2]float64
	for b.Loop() {
		start := cpuTime(b)
		decodeAll(b, ofJSON, c, asJSON)
		middle := cpuTime(b)
		decodeAll(b, ofAvro, c, asAvro)
		spent[0] += middle - start
		spent[1] += cpuTime(b) - middle
	}
	b.ReportMetric(spent[0]/spent[1], "times-json")
	b.ReportMetric(5000*float64(b.N)/spent[1], "avro-records/cpu-s")
}
