package formats

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// maxNesting bounds the depth of a JSON value, inside JSON text too.
const maxNesting = 1000

// The bytes of a string that need a look, found eight at a time.
const (
	lanes = 0x0101010101010101
	highs = 0x8080808080808080
)

// marked has the highest bit of those of eight bytes set that are a quote, a
// backslash, a control character or, with notASCII = highs, no ASCII. Of the bits
// the lowest is right: what a byte borrows reaches only those after it.
func marked(x, notASCII uint64) uint64 {
	quote := x ^ '"'*lanes
	slash := x ^ '\\'*lanes
	return ((quote-lanes)&^quote|(slash-lanes)&^slash|(x-' '*lanes)&^x)&highs | x&notASCII
}

// scanString finds the closing quote of the string whose inside starts at p;
// -1 = there is none, or a control character stands before it.
func scanString(b []byte, p int) (end int, escaped, ascii bool) {
	notASCII := uint64(highs)
	for {
		for p+8 <= len(b) {
			if found := marked(binary.LittleEndian.Uint64(b[p:]), notASCII); found != 0 {
				p += bits.TrailingZeros64(found) / 8
				break
			}
			p += 8
		}
		if p >= len(b) {
			return -1, false, false
		}
		switch c := b[p]; {
		case c == '"':
			return p, escaped, notASCII != 0
		case c == '\\':
			escaped = true
			if p++; p >= len(b) || b[p] < ' ' {
				return -1, false, false
			}
			if b[p] >= utf8.RuneSelf {
				notASCII = 0
			}
		case c < ' ':
			return -1, false, false
		case c >= utf8.RuneSelf:
			notASCII = 0
		}
		p++
	}
}

// appendASCII appends the string whose inside starts at p, and finds its closing
// quote, in one go: eight bytes at a time, of which those behind the quote are
// written over next. It ends with surprise at what is no ASCII and at escapes but
// those of one character.
func appendASCII(dst, b []byte, p int) ([]byte, int) {
	start := len(dst)
	for n := start; p < len(b); {
		if n+8 > cap(dst) {
			dst = slices.Grow(dst[:n], 8)
		}
		x := eight(b, p)
		binary.LittleEndian.PutUint64(dst[n:n+8], x)
		found := marked(x, highs)
		if found == 0 {
			n, p = n+8, p+8
			continue
		}
		at := bits.TrailingZeros64(found) / 8
		if n, p = n+at, p+at; p+1 >= len(b) {
			break
		}
		if b[p] == '"' {
			return dst[:n], p
		}
		if b[p] != '\\' {
			break
		}
		c := unescape(b[p+1])
		if c == 0 {
			break
		}
		dst = append(dst[:n], c)
		n, p = n+1, p+2
	}
	return dst[:start], surprise
}

// eight are the bytes from p on, with zeros behind the end of b.
func eight(b []byte, p int) uint64 {
	if p+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[p:])
	}
	if short := p + 8 - len(b); len(b) >= 8 {
		return binary.LittleEndian.Uint64(b[len(b)-8:]) >> (8 * short)
	}
	var x uint64
	for i, c := range b[p:] {
		x |= uint64(c) << (8 * i)
	}
	return x
}

// space skips JSON white space.
func space(b []byte, p int) int {
	for p < len(b) && (b[p] == ' ' || b[p] == '\n' || b[p] == '\r' || b[p] == '\t') {
		p++
	}
	return p
}

// scanNumber finds the end of the number literal at p; -1 = it is none.
func scanNumber(b []byte, p int) int {
	if p < len(b) && b[p] == '-' {
		p++
	}
	start := p
	for p < len(b) && b[p]-'0' <= 9 {
		p++
	}
	if p == start || b[start] == '0' && p > start+1 {
		return -1
	}
	if p < len(b) && b[p] == '.' {
		p++
		start = p
		for p < len(b) && b[p]-'0' <= 9 {
			p++
		}
		if p == start {
			return -1
		}
	}
	if p < len(b) && b[p]|0x20 == 'e' {
		p++
		if p < len(b) && (b[p] == '+' || b[p] == '-') {
			p++
		}
		start = p
		for p < len(b) && b[p]-'0' <= 9 {
			p++
		}
		if p == start {
			return -1
		}
	}
	return p
}

// smallInt reads the integer of at most 18 digits at p, and nothing else: end is
// -1 for another number, or none, or -0.
func smallInt(b []byte, p int) (v int64, end int) {
	neg := p < len(b) && b[p] == '-'
	if neg {
		p++
	}
	start := p
	for p < len(b) && b[p]-'0' <= 9 {
		v = v*10 + int64(b[p]-'0')
		p++
	}
	if n := p - start; n == 0 || n > 18 || b[start] == '0' && (n > 1 || neg) {
		return 0, -1
	}
	if p < len(b) && (b[p] == '.' || b[p]|0x20 == 'e') {
		return 0, -1
	}
	if neg {
		v = -v
	}
	return v, p
}

// word says that w stands at p.
func word(b []byte, p int, w string) bool { return len(b)-p >= len(w) && string(b[p:p+len(w)]) == w }

// skipValue finds the end of the value at p; -1 = it is malformed or deeper
// than maxNesting.
func skipValue(b []byte, p int) int {
	switch {
	case p >= len(b):
		return -1
	case b[p] == '{' || b[p] == '[':
		return skipContainer(b, p)
	default:
		return skipScalar(b, p)
	}
}

func skipContainer(b []byte, p int) int {
	var open [maxNesting]byte
	depth := 0
	for {
		if p >= len(b) {
			return -1
		}
		// A value starts at p.
		switch c := b[p]; c {
		case '{', '[':
			if depth == maxNesting {
				return -1
			}
			open[depth] = c
			depth++
			p = space(b, p+1)
			if p < len(b) && b[p] == c+2 { // '}' and ']' stand two behind their openers
				break
			}
			if c == '{' {
				p = skipKey(b, p)
			}
			if p < 0 {
				return -1
			}
			continue
		default:
			if p = skipScalar(b, p); p < 0 {
				return -1
			}
			p = space(b, p)
		}
		// A value has ended, or an empty container is about to.
		for {
			if p >= len(b) {
				return -1
			}
			if b[p] == ',' {
				p = space(b, p+1)
				if open[depth-1] == '{' {
					p = skipKey(b, p)
				}
				if p < 0 {
					return -1
				}
				break
			}
			if b[p] != open[depth-1]+2 {
				return -1
			}
			p++
			depth--
			if depth == 0 {
				return p
			}
			p = space(b, p)
		}
	}
}

// skipKey skips a key, its colon and the space around it.
func skipKey(b []byte, p int) int {
	if p >= len(b) || b[p] != '"' {
		return -1
	}
	if p = skipScalar(b, p); p < 0 {
		return -1
	}
	if p = space(b, p); p >= len(b) || b[p] != ':' {
		return -1
	}
	return space(b, p+1)
}

// skipScalar skips a string, number or word.
func skipScalar(b []byte, p int) int {
	switch b[p] {
	case '"':
		end, escaped, _ := scanString(b, p+1)
		if end < 0 || escaped && !validEscapes(b[p+1:end]) {
			return -1
		}
		return end + 1
	case 't':
		if word(b, p, "true") {
			return p + 4
		}
	case 'f':
		if word(b, p, "false") {
			return p + 5
		}
	case 'n':
		if word(b, p, "null") {
			return p + 4
		}
	default:
		return scanNumber(b, p)
	}
	return -1
}

// validEscapes says that every escape inside a string is one of JSON's.
func validEscapes(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i+1 >= len(text) {
			return false
		}
		if text[i+1] == 'u' {
			if _, ok := hex4(text[i:]); !ok {
				return false
			}
		} else if unescape(text[i+1]) == 0 {
			return false
		}
		i++
	}
	return true
}
