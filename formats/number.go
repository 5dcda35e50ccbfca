package formats

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// maxExactInt is the largest n up to which every integer is a double.
const maxExactInt = 1 << 53

// parseInt reads an optionally negative run of digits as int64.
func parseInt(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	if neg {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}

// integral says that a number literal has neither fraction nor exponent.
func integral(b []byte) bool {
	for _, c := range b {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

// exactDouble says that a literal is no integer beyond ±2^53, which a double
// could round.
func exactDouble(b []byte) bool {
	if !integral(b) {
		return true
	}
	v, ok := parseInt(b)
	return ok && v <= maxExactInt && v >= -maxExactInt
}

// isMinusZero says that a literal is -0 without fraction or exponent.
func isMinusZero(b []byte) bool { return len(b) == 2 && b[0] == '-' && b[1] == '0' }

// powersOf10 are those a double holds exactly.
var powersOf10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseDouble reads a number literal; false when it is beyond every double.
func parseDouble(b []byte) (float64, bool) {
	// A mantissa below 2^53 and a power up to 10^22 are exact, so one division is
	// rounded correctly.
	var mantissa uint64
	neg, frac, dot := false, 0, false
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9' && mantissa < maxExactInt/10:
			mantissa = mantissa*10 + uint64(c-'0')
			if dot {
				frac++
			}
		case c == '.' && !dot:
			dot = true
		case c == '-' && i == 0:
			neg = true
		default:
			f, err := strconv.ParseFloat(string(b), 64)
			return f, err == nil
		}
	}
	if frac >= len(powersOf10) {
		f, err := strconv.ParseFloat(string(b), 64)
		return f, err == nil
	}
	f := float64(mantissa) / powersOf10[frac]
	if neg {
		f = -f
	}
	return f, true
}

// splitExponent cuts a number literal without sign into its mantissa and its
// power of ten.
func splitExponent(b []byte) (mantissa []byte, exp int, ok bool) {
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9' || c == '.':
		case c == 'e' || c == 'E':
			rest := b[i+1:]
			if len(rest) > 0 && rest[0] == '+' {
				rest = rest[1:]
			}
			n, ok := parseInt(rest)
			return b[:i], int(n), ok && n > -10000 && n < 10000 && i > 0
		default:
			return nil, 0, false
		}
	}
	return b, 0, len(b) > 0
}

// digitsOf says how many digits a literal has before and after the point once
// its exponent is applied and outer zeros are dropped.
func digitsOf(b []byte) (whole, scale int, ok bool) {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	mantissa, exp, ok := splitExponent(b)
	if !ok {
		return 0, 0, false
	}
	first, last, point, n := -1, -1, -1, 0
	for _, c := range mantissa {
		if c == '.' {
			point = n
			continue
		}
		if c != '0' {
			if first < 0 {
				first = n
			}
			last = n
		}
		n++
	}
	if point < 0 {
		point = n
	}
	if first < 0 {
		return 0, 0, true
	}
	return max(0, point+exp-first), max(0, last+1-point-exp), true
}

// decimal is |value| × 10^scale as a 128-bit integer.
type decimal struct {
	neg    bool
	hi, lo uint64
}

// parseDecimal reads a literal into precision and scale; false when it does
// not fit without rounding.
func parseDecimal(b []byte, precision, scale int32) (d decimal, ok bool) {
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		d.neg = b[0] == '-'
		b = b[1:]
	}
	mantissa, exp, ok := splitExponent(b)
	if !ok {
		return d, false
	}
	whole, frac, ok := digitsOf(b)
	if !ok || frac > int(scale) || whole+int(scale) > int(precision) {
		return d, false
	}
	// shift is how many digits the mantissa lacks to reach the scale; negative
	// means trailing zeros to drop.
	shift, dots, count := int(scale)+exp, 0, 0
	for i, c := range mantissa {
		if c == '.' {
			dots++
			shift -= len(mantissa) - i - 1
			continue
		}
		count++
	}
	if dots > 1 || count == 0 {
		return d, false
	}
	keep := count + min(shift, 0)
	for _, c := range mantissa {
		if c == '.' {
			continue
		}
		if keep <= 0 {
			break
		}
		keep--
		d.push(uint64(c - '0'))
	}
	if d.hi|d.lo != 0 {
		for range shift {
			d.push(0)
		}
	}
	if d.hi|d.lo == 0 {
		d.neg = false
	}
	return d, true
}

// push appends a decimal digit.
func (d *decimal) push(digit uint64) {
	over, lo := bits.Mul64(d.lo, 10)
	lo, carry := bits.Add64(lo, digit, 0)
	d.hi = d.hi*10 + over + carry
	d.lo = lo
}

// binaryDecimal reads a big-endian two's complement number of the scale from
// into precision and scale; false when it does not fit without rounding.
func binaryDecimal(b []byte, from int, precision, scale int32) (d decimal, ok bool) {
	d.neg = len(b) > 0 && b[0] >= 0x80
	fill := byte(0)
	if d.neg {
		fill = 0xff
	}
	for len(b) > 16 {
		if b[0] != fill {
			return d, false
		}
		b = b[1:]
	}
	for range 16 - len(b) {
		d.hi, d.lo = d.hi<<8|d.lo>>56, d.lo<<8|uint64(fill)
	}
	for _, c := range b {
		d.hi, d.lo = d.hi<<8|d.lo>>56, d.lo<<8|uint64(c)
	}
	if d.neg {
		var carry uint64
		d.lo, carry = bits.Add64(^d.lo, 1, 0)
		d.hi = ^d.hi + carry
	}
	for ; int32(from) > scale; from-- {
		if !d.drop() {
			return d, false
		}
	}
	zeros := int(scale) - from
	if d.hi|d.lo == 0 {
		d.neg, zeros = false, 0
	}
	if d.digits()+zeros > int(precision) {
		return d, false
	}
	for range zeros {
		d.push(0)
	}
	return d, true
}

// drop takes the last digit off; false when it is not 0.
func (d *decimal) drop() bool {
	hi, rest := d.hi/10, d.hi%10
	lo, last := bits.Div64(rest, d.lo, 10)
	if last != 0 {
		return false
	}
	d.hi, d.lo = hi, lo
	return true
}

// digits counts the decimal digits of the magnitude.
func (d decimal) digits() int {
	n := 0
	for d.hi != 0 {
		hi, rest := d.hi/10, d.hi%10
		d.lo, _ = bits.Div64(rest, d.lo, 10)
		d.hi = hi
		n++
	}
	for ; d.lo != 0; d.lo /= 10 {
		n++
	}
	return n
}

func (d decimal) int64() int64 {
	if d.neg {
		return -int64(d.lo)
	}
	return int64(d.lo)
}

// append adds the value as 16 bytes of big-endian two's complement.
func (d decimal) append(b []byte) []byte {
	hi, lo := d.hi, d.lo
	if d.neg {
		var carry uint64
		lo, carry = bits.Add64(^lo, 1, 0)
		hi = ^hi + carry
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hi), lo)
}
