package loader

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sawlog/formats"
)

// The units rows are cut into.
const (
	UnitHour = "hour"
	UnitDay  = "day"
)

const (
	hourSeconds = 3600
	daySeconds  = 86400
)

// bucketer puts instants into buckets. A bucket is one local wall-clock hour or
// day of the zone; its key is the UTC instant it starts at, in seconds. Not for
// concurrent use: it remembers the zone period it met last.
type bucketer struct {
	day  bool
	zone *time.Location
	path string

	// The period of constant offset met last: [from, to) in seconds.
	from, to int64
	offset   int64 // seconds east of UTC
	jump     bool  // the period begins with a change of the offset

	// The instants [since, until) known to have the key met last.
	since, until formats.Instant
	key          int64
}

// newBucketer checks the rule; the zone must have the data the plan was made
// with.
func newBucketer(b Bucket) (*bucketer, error) {
	zone, hash, err := formats.LoadZone(b.Zone)
	if err != nil {
		return nil, err
	}
	if b.ZoneHash != "" && b.ZoneHash != hash {
		return nil, fail(ExitConflict, "zone %s has other data (%s) than the plan was made with (%s)", b.Zone, hash, b.ZoneHash)
	}
	if err := checkPath(b.Unit, b.Path); err != nil {
		return nil, err
	}
	return &bucketer{day: b.Unit == UnitDay, zone: zone, path: b.Path, from: 1, to: 0}, nil
}

// newBucket is the rule a spec asks for.
func newBucket(s *Spec) (Bucket, error) {
	b := Bucket{Unit: s.Unit, Zone: s.Zone, Path: s.Path, Fields: fieldsOf(s), Lateness: s.Lateness.Milliseconds()}
	_, hash, err := formats.LoadZone(b.Zone)
	if err != nil {
		return b, err
	}
	b.ZoneHash = hash
	if err := checkPath(b.Unit, b.Path); err != nil {
		return b, err
	}
	return b, checkFields(b.Fields, b.Path)
}

// changed says what another rule has otherwise of that which decides the bucket and
// the folder of a row; "" = nothing. Zones of the same data are the same by any name;
// one whose data a new release has changed is the same zone.
func (b *Bucket) changed(with *Bucket) string {
	switch {
	case b.Unit != with.Unit:
		return fmt.Sprintf("unit is %s, the data set was begun with %s", with.Unit, b.Unit)
	case b.Zone != with.Zone && (b.ZoneHash == "" || b.ZoneHash != with.ZoneHash):
		return fmt.Sprintf("zone is %s, the data set was begun with %s", with.Zone, b.Zone)
	case b.Path != with.Path:
		return fmt.Sprintf("path is %s, the data set was begun with %s", with.Path, b.Path)
	case !slices.Equal(b.Fields, with.Fields):
		return fmt.Sprintf("fields are %s, the data set was begun with %s", fieldNames(with.Fields), fieldNames(b.Fields))
	default:
		return ""
	}
}

// Key is the bucket an instant falls into.
func (b *bucketer) Key(t formats.Instant) int64 {
	if t >= b.since && t < b.until {
		return b.key
	}
	sec := floorDiv(int64(t), 1_000_000)
	if sec < b.from || sec >= b.to {
		b.load(sec)
	}
	unit := int64(hourSeconds)
	if b.day {
		unit = daySeconds
	}
	start := sec - floorMod(sec+b.offset, unit)
	switch {
	case start >= b.from:
		b.key, b.since, b.until = start, formats.Instant(start*1_000_000), formats.Instant(min(start+unit, b.to)*1_000_000)
		return start
	case !b.jump:
		return start
	case b.day:
		return b.dayAcross(start)
	default:
		return b.from // the hour begins in the middle, with the jump of the clock
	}
}

// dayAcross is the start of a day in which the clock jumps: start is where it
// would begin had the offset been the same all day.
func (b *bucketer) dayAcross(start int64) int64 {
	_, before := time.Unix(start, 0).In(b.zone).Zone()
	start += b.offset - int64(before)
	_, again := time.Unix(start, 0).In(b.zone).Zone()
	if again != before {
		return b.from // midnight itself was jumped over
	}
	return start
}

// load finds the period of constant offset around an instant.
func (b *bucketer) load(sec int64) {
	at := time.Unix(sec, 0).In(b.zone)
	_, offset := at.Zone()
	from, to := at.ZoneBounds()
	b.offset, b.from, b.to, b.jump = int64(offset), math.MinInt64, math.MaxInt64, false
	if !from.IsZero() {
		b.from = from.Unix()
		_, before := from.Add(-time.Second).Zone()
		b.jump = before != offset
	}
	if !to.IsZero() {
		b.to = to.Unix()
	}
}

// End is the instant the bucket ends at, in seconds.
func (b *bucketer) End(key int64) int64 {
	span := int64(hourSeconds)
	if b.day {
		span = 2 * daySeconds
	}
	// The end is the first instant with another key; keys never fall, and a
	// bucket is at most 25 hours (or, where a clock went back, 2 hours) long.
	low, high := key, key+max(span, 2*hourSeconds)
	for low+1 < high {
		if mid := low + (high-low)/2; b.Key(formats.Instant(mid*1_000_000)) == key {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// Path is the folder of a bucket, relative to the root. Where the clock goes
// back and the same local hour comes twice, both get their offset from UTC.
func (b *bucketer) Path(key int64) string {
	at := time.Unix(key, 0).In(b.zone)
	path := strftime(b.path, at)
	if !b.day && !strings.Contains(b.path, "%z") && b.repeats(at) {
		path += at.Format("-0700")
	}
	return path
}

// repeats tells whether the local hour of a bucket comes twice.
func (b *bucketer) repeats(at time.Time) bool {
	_, here := at.Zone()
	local := floorDiv(at.Unix()+int64(here), hourSeconds) * hourSeconds
	from, to := at.ZoneBounds()
	for _, jump := range []time.Time{from, to} {
		if jump.IsZero() {
			continue
		}
		_, before := jump.Add(-time.Second).Zone()
		_, after := jump.Zone()
		// Local times in [jump+after, jump+before) come twice.
		if local < jump.Unix()+int64(before) && local+hourSeconds > jump.Unix()+int64(after) {
			return true
		}
	}
	return false
}

// pathLetters are the strftime letters a path may hold, as Go's layouts.
func pathLetters(c byte) (layout string, ok bool) {
	switch c {
	case 'Y':
		return "2006", true
	case 'm':
		return "01", true
	case 'd':
		return "02", true
	case 'j':
		return "002", true
	case 'H':
		return "15", true
	case 'z':
		return "-0700", true
	default:
		return "", false
	}
}

func strftime(path string, at time.Time) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+1 == len(path) {
			out.WriteByte(path[i])
			continue
		}
		i++
		if layout, ok := pathLetters(path[i]); ok {
			out.WriteString(at.Format(layout))
		} else {
			out.WriteByte(path[i]) // %%
		}
	}
	return out.String()
}

// checkPath refuses paths that do not tell buckets apart, or that are no clean
// relative path of visible folders.
func checkPath(unit, path string) error {
	if unit != UnitHour && unit != UnitDay {
		return fmt.Errorf("partition unit %q: want hour or day", unit)
	}
	seen := map[byte]bool{}
	for i := 0; i < len(path); i++ {
		if path[i] != '%' {
			continue
		}
		if i++; i == len(path) {
			return fmt.Errorf("partition path %q: ends with a lone %%", path)
		}
		if _, ok := pathLetters(path[i]); !ok && path[i] != '%' {
			return fmt.Errorf("partition path %q: %%%c is none of %%Y %%m %%d %%j %%H %%z", path, path[i])
		}
		seen[path[i]] = true
	}
	day := seen['Y'] && (seen['j'] || seen['m'] && seen['d'])
	if !day || unit == UnitHour && !seen['H'] {
		return fmt.Errorf("partition path %q: does not tell one %s from another", path, unit)
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || strings.HasPrefix(element, "_") || strings.HasPrefix(element, ".") {
			return fmt.Errorf("partition path %q: its elements must not be empty nor begin with '_' or '.'", path)
		}
	}
	if strings.ContainsAny(path, "\\:\x00\n\r\t ") {
		return fmt.Errorf("partition path %q: holds a character that file stores refuse", path)
	}
	return nil
}

// pathKeys are the keys of key=value elements of a path, such as dt and hr;
// query engines make columns of them, so no column of a file may be named so.
func pathKeys(path string) []string {
	var keys []string
	for element := range strings.SplitSeq(path, "/") {
		if key, _, ok := strings.Cut(element, "="); ok && key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }
