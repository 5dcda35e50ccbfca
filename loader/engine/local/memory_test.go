package local_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
)

// slack is what a task may have resident besides its memory: the program, the
// runtime, and garbage not yet collected.
const slack = 64 << 20

// The most memory a task has resident stays below its share and 64 MiB, few
// columns or many, one hour or hundreds of them and in a soak (SAWLOG_SOAK_RUNS) a
// lifetime, small records or huge.
func TestSoakTaskMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("long: needs hundreds of megabytes of records")
	}
	soak := os.Getenv("SAWLOG_SOAK_RUNS") != ""
	for _, c := range []struct {
		name    string
		columns int
		hours   int
		records int
		value   int // bytes of each string
		memory  int64
		long    bool
	}{
		{"8 columns 1 hour", 8, 1, 300_000, 24, 96 << 20, true},
		{"400 columns 1 hour", 400, 1, 8_000, 24, 192 << 20, false},
		{"400 columns 500 hours", 400, 500, 2_000, 24, 192 << 20, false},
		{"400 columns 2000 hours", 400, 2000, 10_000, 24, 256 << 20, true}, // half of 512 MiB, as two tasks have it
		{"8 columns 2000 hours", 8, 2000, 60_000, 24, 80 << 20, true},
		{"8 columns 700 hours", 8, 700, 20_000, 24, 80 << 20, false},
		{"8 columns 25539 hours", 8, 25_539, 150_000, 24, 128 << 20, true},
		{"20 MiB record", 2, 1, 3, 20 << 20, 512 << 20, false},
	} {
		if c.long && !soak {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, max(1<<20, c.value+c.value/4))
			schema := &formats.Schema{Fields: []formats.Field{
				{Name: "_partition", Type: &formats.Type{Kind: formats.Int32}},
				{Name: "_offset", Type: &formats.Type{Kind: formats.Int64}},
			}}
			for i := range c.columns - 2 {
				schema.Fields = append(schema.Fields, formats.Field{Name: fmt.Sprintf("c%03d", i), Type: &formats.Type{Kind: formats.String}})
			}
			if c.columns == 2 {
				schema.Fields = append(schema.Fields, formats.Field{Name: "c000", Type: &formats.Type{Kind: formats.String}})
			}
			w.spec.Schema = schema
			rnd := rand.New(rand.NewPCG(1, uint64(c.columns)))
			noise := noise(1<<20 + c.value)
			start := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)
			w.produce(func(i int) []byte {
				if i == c.records {
					return nil
				}
				var b strings.Builder
				at := start.Add(time.Duration(rnd.IntN(c.hours)) * time.Hour)
				fmt.Fprintf(&b, `{"ts":%q`, at.Format(time.RFC3339))
				for j := range max(c.columns-2, 1) {
					fmt.Fprintf(&b, `,"c%03d":"`, j)
					at := rnd.IntN(len(noise) - c.value)
					b.WriteString(noise[at : at+c.value])
					b.WriteByte('"')
				}
				b.WriteByte('}')
				return []byte(b.String())
			})
			p := w.plan()
			began := time.Now()
			peak, told := w.peak(p, 0, c.memory)
			if told != nil {
				t.Fatalf("%+v", told)
			}
			t.Logf("peak %d MiB of %d MiB, %v", peak>>20, (c.memory+slack)>>20, time.Since(began).Round(time.Millisecond))
			if peak > c.memory+slack {
				t.Errorf("peak %d MiB, more than %d MiB and 64", peak>>20, c.memory>>20)
			}
		})
	}
}

// memoryRecords is how many records TestTaskMemoryIsFlat loads in one task.
const memoryRecords = "SAWLOG_MEMORY_RECORDS"

// A task of ten times the records takes no more memory, in hours that come in
// order and hours that come mixed, but for a quarter: the collector leaves so much
// more or less from run to run, and of two the more of the tenth and the less of all
// count. Where a tenth of the records doesn't fill the memory yet, it is half as many
// again, but for half the slack; and unless asked for it is only hours that come
// mixed, which take more.
func TestTaskMemoryIsFlat(t *testing.T) {
	records, short := 600_000, true
	if text := os.Getenv(memoryRecords); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1000 {
			t.Fatalf("%s=%q: want a number of records", memoryRecords, text)
		}
		records, short = n, false
	} else if testing.Short() {
		t.Skip("long: loads hundreds of thousands of records")
	}
	const memory = 56 << 20
	text := noise(1 << 20)
	for name, hour := range map[string]func(i int) int{
		"in order": func(i int) int { return i * 24 / records },
		"mixed":    func(i int) int { return i * 7919 % 24 },
	} {
		if short && name != "mixed" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1<<20)
			w.spec.TargetBytes = 1 << 40 // one split
			w.spec.Schema = &formats.Schema{Fields: []formats.Field{
				{Name: "_offset", Type: &formats.Type{Kind: formats.Int64}},
				{Name: "n", Type: &formats.Type{Kind: formats.Int64}},
				{Name: "text", Type: &formats.Type{Kind: formats.String}},
			}}
			sent := 0
			load := func(upTo int) int64 {
				w.produce(func(int) []byte {
					if sent == upTo {
						return nil
					}
					i := sent
					sent++
					at := i * 61 % (len(text) - 100)
					return fmt.Appendf(nil, `{"ts":"2026-11-29T%02d:00:00Z","n":%d,"text":"%s"}`, hour(i), i, text[at:at+100])
				})
				peak, told := w.peak(w.plan(), 0, memory)
				if told != nil {
					t.Fatalf("%+v", told)
				}
				return peak
			}
			first, long := records*2/3, records >= 4_000_000
			if long {
				first = records / 10
			}
			part := load(first)
			limit := part + slack/2
			if long {
				part = max(part, load(first))
				limit = part + part/4
			}
			all := load(records)
			if long && all > limit {
				all = min(all, load(records))
			}
			t.Logf("peak %d MiB with %d records, %d MiB with %d", part>>20, first, all>>20, records)
			if all > limit {
				t.Errorf("peak %d MiB with %d records, %d MiB with %d: it grows with them", part>>20, first, all>>20, records)
			}
			if all > memory+slack {
				t.Errorf("peak %d MiB, more than %d MiB and 64", all>>20, memory>>20)
			}
		})
	}
}

// noise is text that does not compress.
func noise(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	rnd := rand.New(rand.NewPCG(9, 9))
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rnd.IntN(len(letters))]
	}
	return string(out)
}
