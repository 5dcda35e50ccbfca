package formats

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// How values look as JSON, in files of lines and wherever rows are shown.
// Numbers are exact: decimals have all digits of their scale, doubles the fewest
// that read back as the same. Times are RFC 3339 with the digits of their unit,
// local ones without a zone; bytes are standard base64; JSON stands as it is.
//
// RFC 3339 ends with the year 9999. A later year has the digits it needs, one
// before the year 0 a minus and at least four digits, as in ISO 8601, but no plus:
// "12345-01-31", "-0044-03-15".

// AppendInt appends a value of an integer store: an integer, a date, a
// timestamp or a decimal of up to 18 digits.
func (t *Type) AppendInt(dst []byte, v int64) []byte {
	switch t.Kind {
	case Date:
		return time.Unix(v*86400, 0).UTC().AppendFormat(dst, `"2006-01-02"`)
	case Decimal:
		var digits [24]byte
		return appendPointed(dst, strconv.AppendInt(digits[:0], v, 10), int(t.Scale))
	case Timestamp:
		return t.appendTime(dst, v)
	}
	return strconv.AppendInt(dst, v, 10)
}

func (t *Type) appendTime(dst []byte, v int64) []byte {
	var at time.Time
	layout := `"2006-01-02T15:04:05`
	switch t.Unit {
	case Millis:
		at, layout = time.UnixMilli(v), layout+".000"
	case Micros:
		at, layout = time.UnixMicro(v), layout+".000000"
	default:
		at, layout = time.Unix(0, v), layout+".000000000"
	}
	if !t.Local {
		layout += "Z"
	}
	return at.UTC().AppendFormat(dst, layout+`"`)
}

// appendPointed sets the point into a whole number's digits.
func appendPointed(dst, digits []byte, scale int) []byte {
	if len(digits) > 0 && digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	if scale <= 0 || scale > 38 { // no more in any schema; a damaged file may say so
		return append(dst, digits...)
	}
	if lack := scale + 1 - len(digits); lack > 0 {
		dst = append(dst, "0."...)
		dst = append(dst, slices.Repeat([]byte{'0'}, lack-1)...)
		return append(dst, digits...)
	}
	whole := len(digits) - scale
	dst = append(append(dst, digits[:whole]...), '.')
	return append(dst, digits[whole:]...)
}

// AppendFloat appends a float or double; a string for what JSON has no number
// for: "NaN", "+Inf", "-Inf".
func (t *Type) AppendFloat(dst []byte, v float64) []byte {
	bits := 64
	if t.Kind == Float {
		bits = 32
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(strconv.AppendFloat(append(dst, '"'), v, 'g', -1, bits), '"')
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// AppendBytes appends a value of a byte store: a string, bytes, JSON, a uuid, or
// a decimal in big-endian two's complement.
func (t *Type) AppendBytes(dst, v []byte) []byte {
	switch t.Kind {
	case String:
		return AppendQuoted(dst, v)
	case JSON:
		if !json.Valid(v) {
			return AppendQuoted(dst, v)
		}
		at := len(dst)
		dst = append(dst, v...)
		for i, c := range dst[at:] {
			if c == '\n' || c == '\r' { // white space: inside of strings they are escaped
				dst[at+i] = ' '
			}
		}
		return dst
	case UUID:
		if len(v) == 16 {
			var h [32]byte
			hex.Encode(h[:], v)
			dst = append(append(dst, '"'), h[:8]...)
			for _, cut := range [...][2]int{{8, 12}, {12, 16}, {16, 20}, {20, 32}} {
				dst = append(append(dst, '-'), h[cut[0]:cut[1]]...)
			}
			return append(dst, '"')
		}
	case Decimal:
		return appendPointed(dst, signed(v).Append(nil, 10), int(t.Scale))
	}
	dst = append(dst, '"')
	return append(base64.StdEncoding.AppendEncode(dst, v), '"')
}

// signed reads big-endian two's complement.
func signed(v []byte) *big.Int {
	n := new(big.Int).SetBytes(v)
	if len(v) > 0 && v[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}

// LastText appends the value of the last row in a leaf outside of lists and maps:
// text and bytes as they are, others as JSON has them, without quotes. false = it
// is null.
func (c *Columns) LastText(dst []byte, leaf int) (out []byte, ok bool) {
	l, v := &c.leaves[leaf], &c.vecs[leaf]
	if n := len(v.Def); l.MaxDef > 0 && v.Def[n-1] < l.MaxDef {
		return dst, false
	}
	from := len(dst)
	switch l.Store {
	case StoreBool:
		return strconv.AppendBool(dst, v.Bools[len(v.Bools)-1]), true
	case StoreInt32:
		dst = l.Type.AppendInt(dst, int64(v.Int32s[len(v.Int32s)-1]))
	case StoreInt64:
		dst = l.Type.AppendInt(dst, v.Int64s[len(v.Int64s)-1])
	case StoreFloat:
		dst = l.Type.AppendFloat(dst, float64(v.Floats[len(v.Floats)-1]))
	case StoreDouble:
		dst = l.Type.AppendFloat(dst, v.Doubles[len(v.Doubles)-1])
	case StoreBytes:
		return append(dst, v.Value(len(v.Ends)-1)...), true
	default:
		dst = l.Type.AppendBytes(dst, v.Value(len(v.Ends)-1))
	}
	text := bytes.Trim(dst[from:], `"`)
	return append(dst[:from], text...), true
}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends text as a JSON string. Only what must be is escaped; bytes
// that are no UTF-8 become U+FFFD.
func AppendQuoted[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune([]byte(text[i:min(i+utf8.UTFMax, len(text))]))
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, text[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += size
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i-1]...)
		from = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, text[from:]...), '"')
}
