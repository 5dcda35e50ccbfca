package offsets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BoundKind says how a Bound is resolved against a partition.
type BoundKind uint8

// The kinds of bounds the range grammar knows.
const (
	Earliest    BoundKind = iota + 1 // log start
	Latest                           // last stable offset
	AtOffset                         // N
	FromEnd                          // -N: N offsets before the last stable offset
	AtTime                           // @TIME: first offset with a timestamp ≥ Time
	PlusOffsets                      // +N: N offsets after the start; ends only
)

// Bound is one end of a Query, not yet resolved to an offset.
type Bound struct {
	Kind BoundKind
	N    int64     // AtOffset, FromEnd, PlusOffsets
	Time time.Time // AtTime
}

// Query is a range a person wrote. Topic is empty when none was named;
// Partitions is nil for all of them.
type Query struct {
	Topic      string
	Partitions []int32
	Start, End Bound
}

// ParseQuery reads [TOPIC[/PARTITIONS]=]START..END, half-open. A bound is
// earliest, latest, N, -N or @TIME; an end may also be +N, or +DURATION after
// a start by time (it becomes an AtTime). TIME is RFC 3339, a date, a date and an hour,
// epoch seconds or milliseconds, -24h, or now; times without a zone are UTC.
func ParseQuery(s string, now time.Time) (Query, error) {
	var q Query
	text := s
	if head, rest, ok := strings.Cut(text, "="); ok {
		topic, parts, named := strings.Cut(head, "/")
		if topic == "" {
			return q, fmt.Errorf("range %q: no topic before '='", s)
		}
		q.Topic, text = topic, rest
		if named {
			list, err := ParsePartitions(parts)
			if err != nil {
				return q, fmt.Errorf("range %q: %w", s, err)
			}
			q.Partitions = list
		}
	}
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return q, fmt.Errorf("range %q: want START..END, such as 1200..9800 or @2026-11-29T14..+1h", s)
	}
	var err error
	if q.Start, err = parseBound(from, now); err != nil {
		return q, fmt.Errorf("range %q: start: %w", s, err)
	}
	if strings.HasPrefix(to, "+") {
		q.End, err = parsePlus(to, q.Start)
	} else {
		q.End, err = parseBound(to, now)
	}
	if err != nil {
		return q, fmt.Errorf("range %q: end: %w", s, err)
	}
	return q, q.checkOrder(s)
}

func (q Query) checkOrder(s string) error {
	backwards := q.Start.Kind == AtOffset && q.End.Kind == AtOffset && q.End.N < q.Start.N ||
		q.Start.Kind == AtTime && q.End.Kind == AtTime && q.End.Time.Before(q.Start.Time)
	if backwards {
		return fmt.Errorf("range %q: the end lies before the start", s)
	}
	return nil
}

// maxPartition bounds the numbers in PARTITIONS, so that a range stays small.
const maxPartition = 100_000

// ParsePartitions reads N, N-M or a list of them, each number at most 100,000. The
// list is in order and has no number twice.
func ParsePartitions(s string) ([]int32, error) {
	seen := map[int32]bool{}
	for part := range strings.SplitSeq(s, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		a, errA := strconv.ParseInt(low, 10, 32)
		b, errB := strconv.ParseInt(high, 10, 32)
		if errA != nil || errB != nil || a < 0 || b < a || b > maxPartition {
			return nil, fmt.Errorf("partitions %q: want N, N-M or a list of them, each at most %d", s, maxPartition)
		}
		for p := a; p <= b; p++ {
			seen[int32(p)] = true
		}
	}
	list := make([]int32, 0, len(seen))
	for p := range seen {
		list = append(list, p)
	}
	slices.Sort(list)
	return list, nil
}

// ParsePosition reads TOPIC/PARTITION@OFFSET, the place of one record.
func ParsePosition(s string) (TopicPartition, Offset, error) {
	head, offset, marked := strings.Cut(s, "@")
	cut := strings.LastIndex(head, "/")
	if marked && cut > 0 {
		p, errP := strconv.ParseInt(head[cut+1:], 10, 32)
		at, errAt := strconv.ParseInt(offset, 10, 64)
		if errP == nil && errAt == nil && p >= 0 && at >= 0 {
			return TopicPartition{head[:cut], int32(p)}, Offset(at), nil
		}
	}
	return TopicPartition{}, 0, fmt.Errorf("%q: want TOPIC/PARTITION@OFFSET, such as pageviews/3@123456", s)
}

func parseBound(s string, now time.Time) (Bound, error) {
	switch {
	case s == "earliest":
		return Bound{Kind: Earliest}, nil
	case s == "latest":
		return Bound{Kind: Latest}, nil
	case strings.HasPrefix(s, "@"):
		t, err := ParseTime(s[1:], now)
		return Bound{Kind: AtTime, Time: t}, err
	case strings.HasPrefix(s, "-"):
		n, err := strconv.ParseInt(s[1:], 10, 64)
		if err != nil || n < 0 {
			return Bound{}, fmt.Errorf("%q: want -N, such as -1000", s)
		}
		return Bound{Kind: FromEnd, N: n}, nil
	default:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || s[0] == '+' {
			return Bound{}, fmt.Errorf("%q: want earliest, latest, N, -N or @TIME", s)
		}
		return Bound{Kind: AtOffset, N: n}, nil
	}
}

func parsePlus(s string, start Bound) (Bound, error) {
	if n, err := strconv.ParseInt(s[1:], 10, 64); err == nil {
		if n < 0 {
			return Bound{}, fmt.Errorf("%q: want +N or +DURATION", s)
		}
		return Bound{Kind: PlusOffsets, N: n}, nil
	}
	d, err := ParseDuration(s[1:])
	if err != nil {
		return Bound{}, fmt.Errorf("%q: want +N or +DURATION, such as +500 or +1h", s)
	}
	if start.Kind != AtTime {
		return Bound{}, fmt.Errorf("%q: a duration needs a start by time, such as @2026-11-29T14", s)
	}
	return Bound{Kind: AtTime, Time: start.Time.Add(d)}, nil
}

// ParseTime reads a TIME of the range grammar: RFC 3339, 2026-11-29,
// 2026-11-29T14, 2026-11-29T14:05, epoch seconds or milliseconds, -24h (before
// now) or now. Text without a zone is UTC.
func ParseTime(s string, now time.Time) (time.Time, error) {
	if s == "now" {
		return now, nil
	}
	if strings.HasPrefix(s, "-") {
		if d, err := ParseDuration(s[1:]); err == nil {
			return now.Add(-d), nil
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		if n >= 100_000_000_000 { // seconds would be past the year 5138
			return time.UnixMilli(n).UTC(), nil
		}
		return time.Unix(n, 0).UTC(), nil
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15Z07:00",
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02",
	} {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want RFC 3339, 2026-11-29, 2026-11-29T14, epoch seconds or ms, -24h or now", s)
}

// ParseDuration reads Go's durations and, besides, whole days: 90m, 36h, 7d.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > 100_000 {
			return 0, fmt.Errorf("%q is no duration: want 90m, 36h or 7d", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration: want 90m, 36h or 7d", s)
	}
	return d, nil
}
