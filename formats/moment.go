package formats

import "time"

// moment is an instant in full resolution; nanos is 0..999,999,999 and sec is
// floored, so that cutting nanos floors too.
type moment struct {
	sec   int64
	nanos int32
}

// The instants a moment can be: years 0 to 9999.
const (
	minSecond = -62167219200
	maxSecond = 253402300799
)

func (m moment) inRange() bool { return m.sec >= minSecond && m.sec <= maxSecond }

// instant is the moment in microseconds.
func (m moment) instant() Instant { return Instant(m.sec*1e6 + int64(m.nanos/1000)) }

// in gives the moment in a unit; false when int64 can't hold it.
func (m moment) in(u TimeUnit) (int64, bool) {
	switch u {
	case Millis:
		return m.sec*1e3 + int64(m.nanos/1e6), true
	case Micros:
		return m.sec*1e6 + int64(m.nanos/1e3), true
	default:
		const limit = 9223372036 // seconds in int64 nanoseconds
		if m.sec >= limit || m.sec < -limit {
			return 0, false
		}
		return m.sec*1e9 + int64(m.nanos), true
	}
}

// civil is a wall clock reading.
type civil struct {
	year, month, day  int
	hour, minute, sec int
	nanos             int32
	offset            int // seconds east of UTC, if zoned
	zoned             bool
}

var monthDays = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func daysIn(year, month int) int {
	if month == 2 && leap(year) {
		return 29
	}
	return monthDays[month]
}

func (c *civil) valid() bool {
	return c.year >= 0 && c.year <= 9999 && c.month >= 1 && c.month <= 12 && c.day >= 1 && c.day <= daysIn(c.year, c.month) &&
		c.hour < 24 && c.minute < 60 && c.sec <= 60 // 60: a leap second is the second after it
}

// epochDays counts days since 1970-01-01 in the proleptic Gregorian calendar.
func epochDays(year, month, day int) int64 {
	y := int64(year)
	if month <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	mp := int64((month + 9) % 12)
	doy := (153*mp+2)/5 + int64(day) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

// wall is the reading as seconds, as if the clock stood in UTC.
func (c *civil) wall() int64 {
	return epochDays(c.year, c.month, c.day)*86400 + int64(c.hour*3600+c.minute*60+c.sec)
}

// at is the instant of the reading; zone is for a reading without one. False
// for a reading the clock of the zone never showed, or without any zone.
func (c *civil) at(zone *time.Location) (moment, bool) {
	wall := c.wall()
	switch {
	case c.zoned:
		wall -= int64(c.offset)
	case zone == nil:
		return moment{}, false
	case zone != time.UTC:
		var ok bool
		if wall, ok = fromWall(wall, zone); !ok {
			return moment{}, false
		}
	}
	m := moment{wall, c.nanos}
	return m, m.inRange()
}

// fromWall finds the first instant at which the zone's clock showed wall. The
// offsets in force a day before and after are the only candidates.
func fromWall(wall int64, zone *time.Location) (int64, bool) {
	found, first := false, int64(0)
	for _, near := range [2]int64{wall - 86400, wall + 86400} {
		_, off := time.Unix(near, 0).In(zone).Zone()
		at := wall - int64(off)
		if _, real := time.Unix(at, 0).In(zone).Zone(); real == off && (!found || at < first) {
			found, first = true, at
		}
	}
	return first, found
}

// two reads the two ASCII digits at a position of b; less than 0 when they are
// not there.
func two(b []byte, at int) int {
	tens, ones := b[at]-'0', b[at+1]-'0'
	if tens > 9 || ones > 9 {
		return -10_000
	}
	return int(tens)*10 + int(ones)
}

// digits reads n ASCII digits of b from at on; -1 when they are not there.
func digits(b []byte, at, n int) int {
	if at+n > len(b) {
		return -1
	}
	v := 0
	for _, c := range b[at : at+n] {
		if c < '0' || c > '9' {
			return -1
		}
		v = v*10 + int(c-'0')
	}
	return v
}

// fraction reads 1 to 9 digits as nanoseconds and gives the position behind.
func fraction(b []byte, at int) (nanos int32, end int, ok bool) {
	n := 0
	for end = at; end < len(b) && b[end] >= '0' && b[end] <= '9'; end++ {
		nanos = nanos*10 + int32(b[end]-'0')
		if n++; n > 9 {
			return 0, 0, false
		}
	}
	for i := n; i < 9; i++ {
		nanos *= 10
	}
	return nanos, end, n > 0
}

// zoneOffset reads Z, ±hh:mm, ±hhmm or ±hh.
func zoneOffset(b []byte, at int) (offset, end int, ok bool) {
	if at >= len(b) {
		return 0, 0, false
	}
	sign := 1
	switch b[at] {
	case 'Z', 'z':
		return 0, at + 1, true
	case '+':
	case '-':
		sign = -1
	default:
		return 0, 0, false
	}
	hour := digits(b, at+1, 2)
	if hour < 0 || hour > 23 {
		return 0, 0, false
	}
	end = at + 3
	minute := 0
	if end < len(b) && (b[end] == ':' || b[end] >= '0' && b[end] <= '9') {
		if b[end] == ':' {
			end++
		}
		if minute = digits(b, end, 2); minute < 0 || minute > 59 {
			return 0, 0, false
		}
		end += 2
	}
	return sign * (hour*3600 + minute*60), end, true
}

// iso reads YYYY-MM-DD, 'T' or a space, hh:mm:ss, an optional fraction and an
// optional zone, and nothing more. A date alone is its midnight.
func iso(b []byte) (c civil, ok bool) {
	if len(b) == 10 && b[4] == '-' && b[7] == '-' {
		c.year, c.month, c.day = digits(b, 0, 4), digits(b, 5, 2), digits(b, 8, 2)
		return c, c.valid()
	}
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[13] != ':' || b[16] != ':' {
		return c, false
	}
	if s := b[10]; s != 'T' && s != ' ' && s != 't' {
		return c, false
	}
	c.year, c.month, c.day = 100*two(b, 0)+two(b, 2), two(b, 5), two(b, 8)
	c.hour, c.minute, c.sec = two(b, 11), two(b, 14), two(b, 17)
	if c.hour < 0 || c.minute < 0 || c.sec < 0 || !c.valid() {
		return c, false
	}
	at := 19
	if at < len(b) && b[at] == '.' {
		if c.nanos, at, ok = fraction(b, at+1); !ok {
			return c, false
		}
	}
	if at < len(b) {
		if c.offset, at, ok = zoneOffset(b, at); !ok {
			return c, false
		}
		c.zoned = true
	}
	return c, at == len(b)
}

// isoDate reads YYYY-MM-DD as days since 1970-01-01.
func isoDate(b []byte) (int32, bool) {
	if len(b) != 10 || b[4] != '-' || b[7] != '-' {
		return 0, false
	}
	c := civil{year: digits(b, 0, 4), month: digits(b, 5, 2), day: digits(b, 8, 2)}
	return int32(epochDays(max(c.year, 0), max(c.month, 1), c.day)), c.valid()
}
