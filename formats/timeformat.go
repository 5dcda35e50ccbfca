package formats

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// timeFormat reads event times: rfc3339, epoch_s|ms|us|ns, or strptime letters.
type timeFormat struct {
	name string
	unit int // 10^unit per second of an epoch format; -1 = not one
	ops  []byte
	zone *time.Location // of text without one; nil = such text is bad
	// local drops a zone the text has.
	local bool
	last  minute // that text of rfc3339 told
}

// rfc3339 is the default format.
const rfc3339 = "rfc3339"

// newTimeFormat checks and prepares a format.
func newTimeFormat(format string, zone *time.Location) (*timeFormat, error) {
	f := &timeFormat{name: format, unit: -1, zone: zone}
	switch format {
	case "", rfc3339:
		f.name = rfc3339
	case "epoch_s":
		f.unit = 0
	case "epoch_ms":
		f.unit = 3
	case "epoch_us":
		f.unit = 6
	case "epoch_ns":
		f.unit = 9
	default:
		ops, err := compileStrptime(format)
		if err != nil {
			return nil, err
		}
		if f.ops = ops; zone == nil {
			f.zone = time.UTC
		}
	}
	return f, nil
}

// textual says that numbers are no event times in this format.
func (f *timeFormat) textual() bool { return f.unit < 0 }

// text reads a string. ref, the record's own time in milliseconds, gives the
// year to a format without one; -1 = none.
func (f *timeFormat) text(b []byte, ref int64) (moment, bool) {
	switch {
	case f.unit >= 0:
		return epochTime(b, f.unit)
	case f.ops != nil:
		return f.strptime(b, ref)
	}
	if m, ok := f.last.of(b); ok {
		return m, true
	}
	c, ok := iso(b)
	if !ok {
		return moment{}, false
	}
	m, ok := c.at(f.zone)
	if ok {
		f.last.note(b, &c, m)
	}
	return m, ok
}

// number reads a JSON number.
func (f *timeFormat) number(b []byte) (moment, bool) {
	if f.unit < 0 {
		return moment{}, false
	}
	return epochTime(b, f.unit)
}

// ParseTime reads text by a time format; zone is for text without one and may
// be nil.
func ParseTime(format, text string, zone *time.Location) (Instant, error) {
	f, err := newTimeFormat(format, zone)
	if err != nil {
		return 0, err
	}
	m, ok := f.text([]byte(text), -1)
	if !ok {
		return 0, fmt.Errorf("%q is no time in format %s", text, f.name)
	}
	return m.instant(), nil
}

// epochTime reads a decimal number of units since the epoch, 10^unit of them a
// second, and floors it to nanoseconds.
func epochTime(b []byte, unit int) (moment, bool) {
	if v, ok := parseInt(b); ok {
		return epochUnits(v, unit)
	}
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	mantissa, exp, ok := splitExponent(b)
	if !ok {
		return moment{}, false
	}
	whole, frac, _ := bytes.Cut(mantissa, []byte{'.'})
	if bytes.IndexByte(frac, '.') >= 0 {
		return moment{}, false
	}
	all := strings.TrimLeft(string(whole)+string(frac), "0")
	point := len(all) - len(frac) + exp - unit // digits of whole seconds
	if all == "" || point < -9 {
		all, point = "0", 1
	}
	if point > 12 {
		return moment{}, false
	}
	if point < 0 {
		all, point = strings.Repeat("0", -point)+all, 0
	}
	if len(all) < point+9 {
		all += strings.Repeat("0", point+9-len(all))
	}
	var m moment
	for _, c := range all[:point] {
		m.sec = m.sec*10 + int64(c-'0')
	}
	for _, c := range all[point : point+9] {
		m.nanos = m.nanos*10 + (c - '0')
	}
	if neg {
		rest := strings.TrimRight(all[point+9:], "0") != ""
		total := int64(m.nanos)
		if rest {
			total++
		}
		m.sec = -m.sec
		if total > 0 {
			m.sec--
			total = 1e9 - total
		}
		m.nanos = int32(total)
	}
	return m, m.inRange()
}

// epochUnits is a whole number of units since the epoch as a moment.
func epochUnits(v int64, unit int) (moment, bool) {
	per := int64(1)
	for range unit {
		per *= 10
	}
	m := moment{sec: v / per}
	rest := v % per
	if rest < 0 {
		m.sec--
		rest += per
	}
	m.nanos = int32(rest * (1e9 / per))
	return m, m.inRange()
}
