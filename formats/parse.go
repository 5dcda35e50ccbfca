package formats

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// AppendPlain appends the value that a JSON text stands for, in PLAIN encoding, as
// Put takes it. The text is one that AppendInt, AppendFloat or AppendBytes made of
// a value of the type, or of one that the type widens; but a text of JSON is no
// string.
func (t *Type) AppendPlain(dst, text []byte) ([]byte, error) {
	plain := text
	if t.Kind != JSON && len(text) > 0 && text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return dst, err
		}
		plain = []byte(s)
	}
	out, err := t.appendParsed(dst, plain)
	if err != nil {
		err = fmt.Errorf("%.60q is no %s: %w", text, t, err)
	}
	return out, err
}

// appendParsed is AppendPlain of a text without quotes.
func (t *Type) appendParsed(dst, text []byte) ([]byte, error) {
	little := binary.LittleEndian
	switch t.Kind {
	case String, JSON:
		return append(dst, text...), nil
	case Bool:
		v, err := strconv.ParseBool(string(text))
		if v {
			return append(dst, 1), err
		}
		return append(dst, 0), err
	case Int32:
		v, err := strconv.ParseInt(string(text), 10, 32)
		return little.AppendUint32(dst, uint32(v)), err
	case Int64:
		v, err := strconv.ParseInt(string(text), 10, 64)
		return little.AppendUint64(dst, uint64(v)), err
	case Float:
		v, err := strconv.ParseFloat(string(text), 32)
		return little.AppendUint32(dst, math.Float32bits(float32(v))), err
	case Double:
		if i, err := strconv.ParseInt(string(text), 10, 64); err == nil && i != 0 { // there is a -0
			return appendExact(dst, i)
		}
		v, err := strconv.ParseFloat(string(text), 64)
		return little.AppendUint64(dst, math.Float64bits(v)), err
	case Date:
		sec, _, err := parseCivil(time.DateOnly, string(text))
		days := sec / 86400
		if err == nil && int64(int32(days)) != days {
			err = errWide
		}
		return little.AppendUint32(dst, uint32(days)), err
	case UUID:
		return hex.AppendDecode(dst, bytes.ReplaceAll(text, []byte("-"), nil))
	case Timestamp:
		v, err := t.parseTime(string(text))
		return little.AppendUint64(dst, uint64(v)), err
	case Decimal:
		return t.parseDecimal(dst, text)
	}
	return base64.StdEncoding.AppendDecode(dst, text)
}

// parseTime reads a timestamp of the unit or a coarser one.
func (t *Type) parseTime(text string) (int64, error) {
	layout := "2006-01-02T15:04:05" // fractions are read, too
	if !t.Local {
		layout += "Z"
	}
	sec, nanos, err := parseCivil(layout, text)
	if err != nil {
		return 0, err
	}
	scale := int64(1e9)
	switch t.Unit {
	case Millis:
		scale = 1e3
	case Micros:
		scale = 1e6
	}
	v := sec*scale + nanos/(1e9/scale)
	if floorDiv(v, scale) != sec { // it went round
		return 0, errWide
	}
	return v, nil
}

// parseCivil is time.Parse for years as AppendInt writes them. The calendar is the
// same every 400 years, so a year that the library can't read is read as one that
// it can.
func parseCivil(layout, text string) (sec, nanos int64, err error) {
	digits := strings.TrimPrefix(text, "-")
	n := strings.IndexByte(digits, '-')
	if n == 4 && len(digits) == len(text) {
		at, err := time.Parse(layout, text)
		return at.Unix(), int64(at.Nanosecond()), err
	}
	if n < 4 || n > 9 { // no timestamp is that far away
		return 0, 0, fmt.Errorf("no year: %w", strconv.ErrSyntax)
	}
	year, err := strconv.ParseUint(digits[:n], 10, 32)
	if err != nil {
		return 0, 0, err
	}
	signed := int64(year)
	if len(digits) < len(text) {
		signed = -signed
	}
	cycles := floorDiv(signed-2000, 400)
	at, err := time.Parse(layout, strconv.FormatInt(signed-400*cycles, 10)+digits[n:])
	return at.Unix() + cycles*146097*86400, int64(at.Nanosecond()), err
}

// floorDiv divides and rounds down.
func floorDiv(a, b int64) int64 {
	if q := a / b; q*b <= a {
		return q
	}
	return a/b - 1
}

// parseDecimal reads a decimal of the scale or a smaller one.
func (t *Type) parseDecimal(dst, text []byte) ([]byte, error) {
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	if len(fraction) > int(t.Scale) {
		return dst, errWide
	}
	i, ok := new(big.Int).SetString(string(whole)+string(fraction), 10)
	if !ok {
		return dst, strconv.ErrSyntax
	}
	return t.appendDecimal(dst, i.Mul(i, powerOfTen(t.Scale-int32(len(fraction)))))
}
