package formats

import "encoding/binary"

// minute is the minute of the last text with a Z that was read: those of a log
// mostly tell the same one, and only seconds are left to read.
type minute struct {
	date, clock uint64 // YYYY-MM-D and DThh:mm of the text; 0 = there was none
	start       int64  // seconds since the epoch
}

// of gives the moment of a text that begins as the last one did; false = it has
// to be read from its start.
func (l *minute) of(b []byte) (moment, bool) {
	if len(b) < 20 || l.date == 0 || binary.LittleEndian.Uint64(b) != l.date || binary.LittleEndian.Uint64(b[8:]) != l.clock || b[16] != ':' {
		return moment{}, false
	}
	sec := two(b, 17)
	if sec < 0 || sec > 59 {
		return moment{}, false
	}
	m, at := moment{sec: l.start + int64(sec)}, 19
	if b[at] == '.' {
		var ok bool
		if m.nanos, at, ok = fraction(b, at+1); !ok {
			return moment{}, false
		}
	}
	return m, at == len(b)-1 && b[at] == 'Z'
}

// note keeps the minute of a text that tells m.
func (l *minute) note(b []byte, c *civil, m moment) {
	if c.zoned && b[len(b)-1] == 'Z' && c.sec <= 59 {
		l.date, l.clock = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		l.start = m.sec - int64(c.sec)
	}
}
