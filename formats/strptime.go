package formats

import (
	"fmt"
	"strings"
	"time"
)

// compileStrptime checks a strptime format and expands its short forms. In the
// result a letter stands for its directive and 0 announces a literal byte.
func compileStrptime(format string) ([]byte, error) {
	var ops []byte
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c == ' ' || c == '\t' || c == '\n' {
			ops = append(ops, 'n')
			continue
		}
		if c != '%' {
			ops = append(ops, 0, c)
			continue
		}
		if i++; i == len(format) {
			return nil, fmt.Errorf("time format %q ends in %%", format)
		}
		switch c = format[i]; c {
		case 'T':
			ops = append(ops, 'H', 0, ':', 'M', 0, ':', 'S')
		case 'R':
			ops = append(ops, 'H', 0, ':', 'M')
		case 'F':
			ops = append(ops, 'Y', 0, '-', 'm', 0, '-', 'd')
		case 'D':
			ops = append(ops, 'm', 0, '/', 'd', 0, '/', 'y')
		case '%':
			ops = append(ops, 0, '%')
		case 'B', 'h':
			ops = append(ops, 'b')
		case 'A':
			ops = append(ops, 'a')
		case 't':
			ops = append(ops, 'n')
		case 'k':
			ops = append(ops, 'H')
		case 'l':
			ops = append(ops, 'I')
		case 'Y', 'm', 'd', 'e', 'H', 'I', 'M', 'S', 'f', 'z', 'Z', 'b', 'a', 'y', 'j', 'p', 's', 'n':
			ops = append(ops, c)
		default:
			return nil, fmt.Errorf("time format %q: unknown directive %%%c", format, c)
		}
	}
	has := func(letters string) bool {
		for i := 0; i < len(ops); i++ {
			if ops[i] == 0 {
				i++
			} else if strings.IndexByte(letters, ops[i]) >= 0 {
				return true
			}
		}
		return false
	}
	switch {
	case has("s"):
	case !has("j") && !(has("mb") && has("de")):
		return nil, fmt.Errorf("time format %q is none of rfc3339, epoch_s, epoch_ms, epoch_us, epoch_ns and names no day (%%d with %%m or %%b, or %%j, or %%s)", format)
	case has("I") && !has("p"):
		return nil, fmt.Errorf("time format %q has %%I without %%p", format)
	}
	return ops, nil
}

// strptimeState is what the directives of one text have set.
type strptimeState struct {
	civil
	yearDay         int
	hour12          bool
	pm, haveYear    bool
	epoch, useEpoch int64
}

// strptime reads all of b.
func (f *timeFormat) strptime(b []byte, ref int64) (moment, bool) {
	var s strptimeState
	at := 0
	for i := 0; i < len(f.ops); i++ {
		if f.ops[i] == 0 {
			i++
			if at >= len(b) || b[at] != f.ops[i] {
				return moment{}, false
			}
			at++
			continue
		}
		if at = s.read(f.ops[i], b, at); at < 0 {
			return moment{}, false
		}
	}
	if at != len(b) {
		return moment{}, false
	}
	if f.local {
		s.zoned, s.offset = false, 0
	}
	return s.resolve(f.zone, ref)
}

// read takes one directive's text at at and gives the position behind, or -1.
func (s *strptimeState) read(op byte, b []byte, at int) int {
	number := func(width int, into *int) int {
		for at < len(b) && b[at] == ' ' && width == 2 { // %e and its like are padded
			at++
		}
		n := 0
		for n < width && at+n < len(b) && b[at+n] >= '0' && b[at+n] <= '9' {
			n++
		}
		if n == 0 || width == 4 && n != 4 {
			return -1
		}
		*into = digits(b, at, n)
		return at + n
	}
	var ok bool
	switch op {
	case 'Y':
		s.haveYear = true
		return number(4, &s.year)
	case 'y':
		s.haveYear = true
		if at = number(2, &s.year); s.year >= 69 {
			s.year += 1900
		} else {
			s.year += 2000
		}
		return at
	case 'm':
		return number(2, &s.month)
	case 'd', 'e':
		return number(2, &s.day)
	case 'H':
		return number(2, &s.hour)
	case 'I':
		s.hour12 = true
		return number(2, &s.hour)
	case 'M':
		return number(2, &s.minute)
	case 'S':
		return number(2, &s.sec)
	case 'j':
		return number(3, &s.yearDay)
	case 'f':
		if s.nanos, at, ok = fraction(b, at); !ok {
			return -1
		}
		return at
	case 'z':
		if s.offset, at, ok = zoneOffset(b, at); !ok {
			return -1
		}
		s.zoned = true
		return at
	case 'Z':
		for _, name := range [...]string{"UTC", "GMT", "Z"} {
			if strings.HasPrefix(string(b[at:]), name) {
				s.zoned = true
				return at + len(name)
			}
		}
		return -1
	case 'b':
		month, end := nameAt(b, at, monthNames[:])
		s.month = month + 1
		return end
	case 'a':
		_, end := nameAt(b, at, dayNames[:])
		return end
	case 'p':
		half, end := nameAt(b, at, halves[:])
		s.pm = half == 1
		return end
	case 's':
		start := at
		for at < len(b) && (b[at] >= '0' && b[at] <= '9' || b[at] == '-' && at == start) {
			at++
		}
		if s.epoch, ok = parseInt(b[start:at]); !ok {
			return -1
		}
		s.useEpoch = 1
		return at
	default: // 'n': white space, at least one
		start := at
		for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n') {
			at++
		}
		if at == start {
			return -1
		}
		return at
	}
}

var (
	monthNames = [...]string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	dayNames   = [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	halves     = [...]string{"am", "pm"}
)

// nameAt finds which full or three-letter name stands at at, in any case.
func nameAt(b []byte, at int, names []string) (which, end int) {
	for i, name := range names {
		for _, form := range [...]string{name, name[:min(3, len(name))]} {
			if len(b)-at >= len(form) && strings.EqualFold(string(b[at:at+len(form)]), form) {
				return i, at + len(form)
			}
		}
	}
	return -1, -1
}

// resolve makes an instant of what was read.
func (s *strptimeState) resolve(zone *time.Location, ref int64) (moment, bool) {
	if s.useEpoch != 0 {
		m := moment{s.epoch, s.nanos}
		return m, m.inRange()
	}
	if s.hour12 {
		if s.hour < 1 || s.hour > 12 {
			return moment{}, false
		}
		s.hour %= 12
		if s.pm {
			s.hour += 12
		}
	}
	if !s.haveYear {
		return s.nearest(zone, ref)
	}
	return s.inYear(zone)
}

func (s *strptimeState) inYear(zone *time.Location) (moment, bool) {
	c := s.civil
	if s.yearDay > 0 {
		left := s.yearDay
		for c.month = 1; c.month < 12 && left > daysIn(c.year, c.month); c.month++ {
			left -= daysIn(c.year, c.month)
		}
		c.day = left
	}
	if !c.valid() {
		return moment{}, false
	}
	return c.at(zone)
}

// nearest takes the year that brings a text without one closest to the time of
// its record.
func (s *strptimeState) nearest(zone *time.Location, ref int64) (best moment, found bool) {
	if ref == -1 {
		return moment{}, false
	}
	at := ref / 1000
	year := time.Unix(at, 0).UTC().Year()
	distance := func(m moment) int64 { return max(m.sec-at, at-m.sec) }
	for s.year = year - 1; s.year <= year+1; s.year++ {
		if m, ok := s.inYear(zone); ok && (!found || distance(m) < distance(best)) {
			best, found = m, true
		}
	}
	return best, found
}

// localText reads text as the clock showed it, a written zone dropped.
func (f *timeFormat) localText(b []byte, ref int64) (moment, bool) {
	local := timeFormat{unit: -1, ops: f.ops, zone: time.UTC, local: true}
	return local.strptime(b, ref)
}
