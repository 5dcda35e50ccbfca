package formats

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"sawlog/formats/avro"
)

// Values of columns that hold JSON text are written as a JSON record would
// have them: unions without the branch's name, bytes in base64, decimals as
// numbers, times as RFC 3339, and NaN and infinities as text.

// appendJSON appends the value at p as JSON.
func (r *avroReader) appendJSON(dst []byte, w *avro.Type, p int) ([]byte, int) {
	switch w.Kind {
	case avro.Null:
		return append(dst, "null"...), p
	case avro.Boolean:
		v, end := r.boolean(p)
		return strconv.AppendBool(dst, v), end
	case avro.Int, avro.Long:
		v, end := r.integer(w, p)
		return appendAvroInteger(dst, w, v), end
	case avro.Float, avro.Double:
		v, end := r.double(w, p)
		return appendJSONFloat(dst, v, w.Kind == avro.Float), end
	case avro.String:
		text, end := r.sized(w, p)
		return appendJSONString(dst, text), end
	case avro.Bytes, avro.Fixed:
		b, end := r.sized(w, p)
		if end < 0 {
			return dst, end
		}
		return appendAvroBytes(dst, w, b), end
	case avro.Enum:
		at, end := r.index(len(w.Symbols), "symbol", p)
		if end < 0 {
			return dst, end
		}
		return appendJSONString(dst, []byte(w.Symbols[at])), end
	case avro.Union:
		at, end := r.index(len(w.Branches), "branch", p)
		if end < 0 {
			return dst, end
		}
		return r.appendJSON(dst, w.Branches[at], end)
	case avro.Record:
		return r.appendRecord(dst, w, p)
	default:
		return r.appendItems(dst, w, p)
	}
}

func (r *avroReader) appendRecord(dst []byte, w *avro.Type, p int) ([]byte, int) {
	if !r.deeper(p) {
		return dst, -1
	}
	dst = append(dst, '{')
	for i := range w.Fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSONString(dst, []byte(w.Fields[i].Name)), ':')
		if dst, p = r.appendJSON(dst, w.Fields[i].Type, p); p < 0 {
			return dst, p
		}
	}
	r.depth--
	return append(dst, '}'), p
}

func (r *avroReader) appendItems(dst []byte, w *avro.Type, p int) ([]byte, int) {
	open, end := byte('['), byte(']')
	if w.Kind == avro.Map {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	for first := true; ; {
		count, at := r.block(p)
		if p = at; p < 0 {
			return dst, p
		}
		if count == 0 {
			return append(dst, end), p
		}
		for ; count > 0; count-- {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if w.Kind == avro.Map {
				key, at := r.sized(stringType, p)
				if p = at; p < 0 {
					return dst, p
				}
				dst = append(appendJSONString(dst, key), ':')
			}
			from := p
			if dst, p = r.appendJSON(dst, w.Elem, p); p < 0 {
				return dst, p
			}
			if p = r.item(from, p); p < 0 {
				return dst, p
			}
		}
	}
}

func appendAvroInteger(dst []byte, w *avro.Type, v int64) []byte {
	unit, local, stamp := avroTimestamp(w.Logical)
	var m moment
	ok := false
	switch {
	case stamp:
		m, ok = epochUnits(v, timeUnits[unit])
	case w.Logical == "date":
		m = moment{sec: v * 86400}
		ok = m.inRange()
	}
	if !ok {
		return strconv.AppendInt(dst, v, 10)
	}
	form := time.RFC3339Nano
	switch {
	case local:
		form = "2006-01-02T15:04:05.999999999"
	case !stamp:
		form = time.DateOnly
	}
	return append(time.Unix(m.sec, int64(m.nanos)).UTC().AppendFormat(append(dst, '"'), form), '"')
}

func appendAvroBytes(dst []byte, w *avro.Type, b []byte) []byte {
	switch w.Logical {
	case "decimal":
		return appendDecimal(dst, b, w.Scale)
	case "uuid":
		return append(appendUUID(append(dst, '"'), b), '"')
	case "duration":
		for i, name := range avroDurations {
			dst = append(dst, "{,,"[i])
			dst = append(appendJSONString(dst, []byte(name)), ':')
			dst = strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b[4*i:])), 10)
		}
		return append(dst, '}')
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}

// appendJSONFloat appends a float as a number; what JSON has no number for is
// text.
func appendJSONFloat(dst []byte, v float64, narrow bool) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	bits := 64
	if narrow {
		bits = 32
	}
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(dst, v, form, -1, bits)
}

// appendJSONString appends text as a JSON string, repaired where it is no UTF-8.
func appendJSONString(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for len(text) > 0 {
		c := text[0]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(text)
			dst = utf8.AppendRune(dst, r)
			text = text[n:]
			continue
		}
		text = text[1:]
	}
	return append(dst, '"')
}
