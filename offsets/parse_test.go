package offsets_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sawlog/offsets"
)

var now = time.Date(2026, 11, 29, 22, 30, 0, 0, time.UTC)

func TestParseQuery(t *testing.T) {
	at := func(s string) offsets.Bound {
		when, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return offsets.Bound{Kind: offsets.AtTime, Time: when}
	}
	earliest, latest := offsets.Bound{Kind: offsets.Earliest}, offsets.Bound{Kind: offsets.Latest}
	offset := func(n int64) offsets.Bound { return offsets.Bound{Kind: offsets.AtOffset, N: n} }
	for text, want := range map[string]offsets.Query{
		"earliest..latest":                 {Start: earliest, End: latest},
		"orders/3=1200..9800":              {Topic: "orders", Partitions: []int32{3}, Start: offset(1200), End: offset(9800)},
		"orders/0-3=@2026-11-29T14..+1h":   {Topic: "orders", Partitions: []int32{0, 1, 2, 3}, Start: at("2026-11-29T14:00:00Z"), End: at("2026-11-29T15:00:00Z")},
		"orders/5,1-2,2=0..1":              {Topic: "orders", Partitions: []int32{1, 2, 5}, Start: offset(0), End: offset(1)},
		"-1000..latest":                    {Start: offsets.Bound{Kind: offsets.FromEnd, N: 1000}, End: latest},
		"@-24h..@now":                      {Start: at("2026-11-28T22:30:00Z"), End: at("2026-11-29T22:30:00Z")},
		"@1784880000..@1784883600000":      {Start: at("2026-07-24T08:00:00Z"), End: at("2026-07-24T09:00:00Z")},
		"@2026-11-29T14:30:00+02:00..+90m": {Start: at("2026-11-29T12:30:00Z"), End: at("2026-11-29T14:00:00Z")},
		"@2026-11-29..+1d":                 {Start: at("2026-11-29T00:00:00Z"), End: at("2026-11-30T00:00:00Z")},
		"7..+5":                            {Start: offset(7), End: offsets.Bound{Kind: offsets.PlusOffsets, N: 5}},
		"a.b-c=earliest..0":                {Topic: "a.b-c", Start: earliest, End: offset(0)},
	} {
		got, err := offsets.ParseQuery(text, now)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got.Start.Time = got.Start.Time.UTC(); want.Start.Kind != offsets.AtTime {
			got.Start.Time = time.Time{}
		}
		want.Start.Time, want.End.Time = want.Start.Time.UTC(), want.End.Time.UTC()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
}

func TestParseQueryRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                         "START..END",
		"5":                        "START..END",
		"..":                       "start",
		"5..":                      "end",
		"9..5":                     "before the start",
		"@2026-11-29..@2026-11-1":  "is no time",
		"@2026-11-29..@2026-11-28": "before the start",
		"=1..2":                    "no topic",
		"t/=1..2":                  "partitions",
		"t/3-1=1..2":               "partitions",
		"t/-1=1..2":                "partitions",
		"1..+1h":                   "start by time",
		"+1..2":                    "start",
		"--1..2":                   "start",
		"1..+-2":                   "want +N",
		"@..5":                     "is no time",
	} {
		_, err := offsets.ParseQuery(text, now)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v, want one that says %q", text, err, says)
		}
	}
}

// TestPlaces: partitions and the place of a record are what they say, and
// nothing near it.
func TestPlaces(t *testing.T) {
	if got, err := offsets.ParsePartitions("7,0-2,1,100000"); err != nil || !slices.Equal(got, []int32{0, 1, 2, 7, 100_000}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "x", "3-1", "-1", "1-", "1,,2", "0-100001", "100001", "2147483648"} {
		if got, err := offsets.ParsePartitions(wrong); err == nil {
			t.Errorf("partitions %q: %v", wrong, got)
		}
	}
	of, at, err := offsets.ParsePosition("a.b/c/3@9223372036854775807")
	if err != nil || of != (offsets.TopicPartition{Topic: "a.b/c", Partition: 3}) || at != math.MaxInt64 {
		t.Errorf("%v@%d, %v", of, at, err)
	}
	for _, wrong := range []string{"", "orders", "orders/3", "orders@5", "/3@5", "orders/@5", "orders/3@", "orders/-1@5", "orders/3@-5", "orders/3@5@6", "orders/2147483648@5", "orders/3@9223372036854775808"} {
		if of, at, err := offsets.ParsePosition(wrong); err == nil {
			t.Errorf("position %q: %v@%d", wrong, of, at)
		}
	}
}

func TestSetAgainstModel(t *testing.T) {
	rnd := uint32(7)
	next := func(n uint32) int64 { rnd = rnd*1664525 + 1013904223; return int64(rnd >> 8 % n % n) }
	for round := range 300 {
		var set offsets.Set
		var model [64]bool
		for range 20 {
			a := next(60)
			r := offsets.Range{Start: offsets.Offset(a), End: offsets.Offset(a + next(8))}
			add := next(3) > 0
			if add {
				set = set.Add(r)
			} else {
				set = set.Remove(r)
			}
			for o := r.Start; o < r.End && o < 64; o++ {
				model[o] = add
			}
		}
		for i, r := range set {
			if r.Empty() || i > 0 && set[i-1].End >= r.Start {
				t.Fatalf("round %d: not canonical: %v", round, set)
			}
		}
		for o := range offsets.Offset(64) {
			one := offsets.Range{Start: o, End: o + 1}
			if set.Overlaps(one) != model[o] || set.Covers(one) != model[o] {
				t.Fatalf("round %d: offset %d: set %v, model %v", round, o, set, model[o])
			}
			end := o
			for end < 64 && model[end] {
				end++
			}
			if got := set.ContiguousEnd(o); got != end && end < 64 {
				t.Fatalf("round %d: contiguous end of %d is %d, want %d in %v", round, o, got, end, set)
			}
		}
	}
}

func TestTopicIDText(t *testing.T) {
	id := offsets.TopicID{0xff, 1, 2, 15: 9}
	back, err := offsets.ParseTopicID(id.String())
	if err != nil || back != id {
		t.Fatalf("%s came back as %s, %v", id, back, err)
	}
	for _, bad := range []string{"", "abc", id.String() + "A", strings.Repeat("=", 22)} {
		if _, err := offsets.ParseTopicID(bad); err == nil {
			t.Errorf("%q was taken for a topic id", bad)
		}
	}
}
