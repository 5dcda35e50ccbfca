package formats

import (
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strconv"
	"time"

	"sawlog/formats/avro"
)

// mapping reads a map. A key that stands twice has its last value.
func (r *avroReader) mapping(n *avroNode, p int, rep int16) int {
	base := len(r.maps)
	end := r.entries(n.w, p)
	if end < 0 {
		return end
	}
	r.lastWins(base)
	if len(r.maps) == base {
		r.null(n.s, rep, n.s.def)
		return end
	}
	keys, leaf := &r.c.vecs[n.s.lo], &r.c.leaves[n.s.lo]
	for i, last := base, len(r.maps); i < last; i++ {
		var bad bool
		if keys.Data, bad = appendUTF8(keys.Data, r.maps[i].key); bad {
			r.replaced++
		}
		keys.seal()
		keys.level(leaf, n.s.def+1, rep)
		if at := r.value(n.elem, r.maps[i].at, rep); at < 0 {
			return at
		}
		rep = n.s.rep
	}
	r.maps = r.maps[:base]
	return end
}

// entries finds the entries of a map.
func (r *avroReader) entries(w *avro.Type, p int) int {
	for {
		count, at := r.block(p)
		if p = at; p < 0 || count == 0 {
			return p
		}
		for ; count > 0; count-- {
			key, at := r.sized(stringType, p)
			if at < 0 {
				return at
			}
			r.maps = append(r.maps, mapEntry{key, at})
			if p = r.skip(w.Elem, at); p < 0 {
				return p
			}
		}
	}
}

// lastWins drops the entries from base on whose key comes again.
func (r *avroReader) lastWins(base int) {
	kept, twice := lastWins(r.maps[base:], &r.keys)
	r.maps, r.twice = r.maps[:base+len(kept)], r.twice+twice
}

// logical reads what a logical type makes of bytes.
func (r *avroReader) logical(n *avroNode, p int, rep int16) int {
	b, end := r.sized(n.w, p)
	if end < 0 {
		return end
	}
	switch n.code {
	case avroDecimal:
		d, ok := binaryDecimal(b, n.w.Scale, n.s.t.Precision, n.s.t.Scale)
		if !ok {
			return r.misfit(n, string(appendDecimal(nil, b, n.w.Scale)))
		}
		r.number128(n.s, d, rep)
	case avroDecimalText:
		r.digits = appendDecimal(r.digits[:0], b, n.w.Scale)
		r.bytes(n.s, r.digits, rep)
	case avroUUIDText:
		r.digits = appendUUID(r.digits[:0], b)
		r.bytes(n.s, r.digits, rep)
	default: // avroDuration
		for i, kid := range n.kids {
			if kid.s == nil {
				continue
			}
			v := int64(binary.LittleEndian.Uint32(b[4*i:]))
			switch kid.s.kind {
			case Int64:
				r.int64(kid.s, v, rep)
			default:
				return r.misfit(n, "in its member "+kid.s.name)
			}
		}
		r.nulls(n.lacks, rep, n.s.def)
	}
	return end
}

// appendDecimal appends a two's complement number as decimal text.
func appendDecimal(dst, b []byte, scale int) []byte {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	text := v.Abs(v).String()
	if len(b) > 0 && b[0] >= 0x80 {
		dst = append(dst, '-')
	}
	for len(text) <= scale {
		text = "0" + text
	}
	dst = append(dst, text[:len(text)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), text[len(text)-scale:]...)
	}
	return dst
}

// appendUUID appends 16 bytes as 8-4-4-4-12 hex digits.
func appendUUID(dst, b []byte) []byte {
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		from := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, b[from:end])
	}
	return dst
}

// time reads the event time.
func (r *avroReader) time(n *avroNode, p int) int {
	var m moment
	ok := false
	end := p
	switch n.w.Kind {
	case avro.String:
		var text []byte
		if text, end = r.sized(n.w, p); end < 0 {
			return end
		}
		if m, ok = r.times.text(text, r.ref); !ok {
			return r.fail(BadTime, "%.60q is no time in format %s", text, r.times.name)
		}
	case avro.Float, avro.Double:
		var v float64
		if v, end = r.double(n.w, p); end < 0 {
			return end
		}
		r.digits = strconv.AppendFloat(r.digits[:0], v, 'f', -1, 64)
		m, ok = epochTime(r.digits, max(n.unit, 0))
	case avro.Int, avro.Long:
		var v int64
		if v, end = r.integer(n.w, p); end < 0 {
			return end
		}
		return r.instant(n, v, end)
	}
	if !ok || n.w.Kind != avro.String && n.w.Logical == "" && n.unit < 0 {
		return r.fail(BadTime, "avro %s is no time in format %s", avroName(n.w), r.times.name)
	}
	r.event, r.timed = m, true
	return end
}

// instant is the event time of a number that ends at end.
func (r *avroReader) instant(n *avroNode, v int64, end int) int {
	var m moment
	ok := false
	if n.w.Logical == "date" {
		v, m = v*86400, moment{sec: v * 86400}
		ok = m.inRange()
	} else {
		m, ok = epochUnits(v, max(n.unit, 0))
	}
	if ok && n.local {
		m, ok = m.onClock(r.times.zone)
	}
	if !ok {
		return r.fail(BadTime, "%d is no time as avro %s", v, avroName(n.w))
	}
	if n.w.Logical == "" && n.unit < 0 {
		return r.fail(BadTime, "avro %s is no time in format %s", avroName(n.w), r.times.name)
	}
	r.event, r.timed = m, true
	return end
}

// onClock is the instant at which the clock of a zone showed the moment.
func (m moment) onClock(zone *time.Location) (moment, bool) {
	if zone == nil || zone == time.UTC {
		return m, true
	}
	sec, ok := fromWall(m.sec, zone)
	return moment{sec, m.nanos}, ok
}

// plainText is a scalar as text, other values as JSON: what is hashed.
func (r *avroReader) plainText(w *avro.Type, p int) ([]byte, int) {
	if (w.Kind == avro.String || w.Kind == avro.Bytes || w.Kind == avro.Fixed) && w.Logical == "" {
		return r.sized(w, p)
	}
	r.digits, p = r.appendJSON(r.digits[:0], w, p)
	text := r.digits
	if n := len(text); p >= 0 && n > 1 && text[0] == '"' {
		text = text[1 : n-1] // an enum's symbol, a time
	}
	return text, p
}
