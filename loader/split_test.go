package loader

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sawlog/formats"
	"sawlog/offsets"
)

func sizedRange(partition int32, start, end offsets.Offset, density float64) sized {
	return sized{SplitRange{Topic: "t", Partition: partition, Range: offsets.Range{Start: start, End: end}}, density}
}

func show(splits []Split) string {
	var out []string
	for _, s := range splits {
		var rs []string
		for _, r := range s.Ranges {
			rs = append(rs, fmt.Sprintf("%d:%s", r.Partition, r.Range))
		}
		out = append(out, strings.Join(rs, "+"))
	}
	return strings.Join(out, " ")
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []sized
		target int64
		merge  string
		want   string
	}{
		{"one small", []sized{sizedRange(0, 5, 10, 1)}, 100, mergeAuto, "0:5..10"},
		{"small ones are packed", []sized{sizedRange(0, 0, 40, 1), sizedRange(1, 0, 40, 1), sizedRange(2, 0, 40, 1)}, 100, mergeAuto, "0:0..40+1:0..40 2:0..40"},
		{"never packed", []sized{sizedRange(0, 0, 40, 1), sizedRange(1, 0, 40, 1)}, 100, mergeNever, "0:0..40 1:0..40"},
		{"bigger ones only always", []sized{sizedRange(0, 0, 60, 1), sizedRange(1, 0, 40, 1)}, 100, mergeAuto, "0:0..60 1:0..40"},
		{"always", []sized{sizedRange(0, 0, 60, 1), sizedRange(1, 0, 40, 1), sizedRange(2, 0, 1, 1)}, 100, mergeAlways, "0:0..60+1:0..40 2:0..1"},
		{"equal offset counts", []sized{sizedRange(0, 100, 400, 1)}, 100, mergeAuto, "0:100..200 0:200..300 0:300..400"},
		{"uneven", []sized{sizedRange(0, 0, 10, 10)}, 30, mergeAuto, "0:0..2 0:2..5 0:5..7 0:7..10"},
		{"one offset is not cut", []sized{sizedRange(0, 7, 8, 1e9)}, 100, mergeAuto, "0:7..8"},
		{"empty", []sized{sizedRange(0, 7, 7, 1)}, 100, mergeAuto, ""},
		{"density", []sized{sizedRange(0, 0, 100, 0.5), sizedRange(1, 0, 100, 4)}, 200, mergeAlways, "0:0..100 1:0..50 1:50..100"},
	} {
		if got := show(cut(c.ranges, c.target, c.merge)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever the ranges: the splits cover them exactly, in order; none is thought
// larger than the target unless it is one offset; four times the target makes
// four splits.
func TestCutCovers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var ranges []sized
		var total float64
		for p := range 1 + rnd.IntN(6) {
			start := offsets.Offset(rnd.IntN(1000))
			r := sizedRange(int32(p), start, start+offsets.Offset(rnd.IntN(5000)), 0.1+rnd.Float64()*50)
			ranges = append(ranges, r)
			total += r.bytes()
		}
		target := int64(1 + rnd.IntN(60_000))
		merge := []string{mergeAuto, mergeAlways, mergeNever}[rnd.IntN(3)]
		splits := cut(ranges, target, merge)
		next := map[int32]offsets.Offset{}
		for _, r := range ranges {
			next[r.Partition] = r.Start
		}
		for i, s := range splits {
			if s.Index != i || len(s.Ranges) == 0 || merge == mergeNever && len(s.Ranges) > 1 {
				t.Fatalf("split %d: %+v", i, s)
			}
			var size float64
			for _, r := range s.Ranges {
				if r.Start != next[r.Partition] || r.Empty() {
					t.Fatalf("split %d starts at %d, want %d", i, r.Start, next[r.Partition])
				}
				next[r.Partition] = r.End
				size += float64(r.Len()) * ranges[r.Partition].density
			}
			if slack := 50.0; size > float64(target)+slack {
				t.Fatalf("split %d of %.0f bytes, target %d: %s", i, size, target, show(splits))
			}
		}
		for _, r := range ranges {
			if next[r.Partition] != r.End {
				t.Fatalf("partition %d is covered up to %d of %d", r.Partition, next[r.Partition], r.End)
			}
		}
		if total >= 4*float64(target) && len(splits) < 4 {
			t.Fatalf("%.0f bytes of target %d make %d splits", total, target, len(splits))
		}
	}
}

func TestPageLimit(t *testing.T) {
	for columns, want := range map[int]int64{1: 1 << 20, 8: 1 << 20, 32: 1 << 20, 64: 512 << 10, 400: 83886, 2000: 16777, 2048: 16384, 4000: 16384} {
		s := &formats.Schema{}
		for i := range columns {
			s.Fields = append(s.Fields, formats.Field{Name: fmt.Sprintf("c%d", i), Type: &formats.Type{Kind: formats.Int64}})
		}
		if got := pageLimit(s); got != want {
			t.Errorf("%d columns: %d, want %d", columns, got, want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		parallelism int
		memory      int64
		splits      int
		tasks       int
		bytes       int64
	}{{4, 400, 10, 4, 100}, {4, 400, 2, 2, 200}, {1, 0, 9, 1, defaultMemory}, {3, 100, 0, 1, 100}} {
		if tasks, bytes := share(c.parallelism, c.memory, c.splits); tasks != c.tasks || bytes != c.bytes {
			t.Errorf("%+v: %d tasks of %d", c, tasks, bytes)
		}
	}
}

// On a cluster every task has the memory of a run, and all run at a time.
func TestShareOfACluster(t *testing.T) {
	d := &Driver{Spread: true}
	for _, c := range []struct {
		parallelism int
		memory      int64
		tasks       int
		bytes       int64
	}{{4, 400, 4, 400}, {0, 400, 10, 400}, {99, 0, 10, defaultMemory}} {
		if tasks, bytes := d.share(c.parallelism, c.memory, 10); tasks != c.tasks || bytes != c.bytes {
			t.Errorf("%+v: %d tasks of %d", c, tasks, bytes)
		}
	}
}
