package formats

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// appendUTF8 appends text with every bad byte made U+FFFD; replaced says that
// there was one.
func appendUTF8(dst, text []byte) (out []byte, replaced bool) {
	if utf8.Valid(text) {
		return append(dst, text...), false
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[n:]
	}
	return dst, true
}

// appendUnescaped appends the inside of a JSON string with its escapes
// resolved. Lone surrogates and bad UTF-8 become U+FFFD; ok is false for an
// escape JSON has not.
func appendUnescaped(dst, text []byte) (out []byte, replaced, ok bool) {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			at = len(text)
		}
		var bad bool
		dst, bad = appendUTF8(dst, text[:at])
		replaced = replaced || bad
		if text = text[at:]; len(text) == 0 {
			return dst, replaced, true
		}
		if len(text) == 1 {
			return dst, replaced, false
		}
		if text[1] != 'u' {
			plain := unescape(text[1])
			if plain == 0 {
				return dst, replaced, false
			}
			dst, text = append(dst, plain), text[2:]
			continue
		}
		r, n := unicodeEscape(text)
		if n == 0 {
			return dst, replaced, false
		}
		if utf16.IsSurrogate(r) {
			r, replaced = utf8.RuneError, true
		}
		dst, text = utf8.AppendRune(dst, r), text[n:]
	}
}

func unescape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// unicodeEscape reads \uXXXX, or two of them that make a surrogate pair, and
// gives the length read; 0 = none. A lone surrogate is given as it is.
func unicodeEscape(text []byte) (rune, int) {
	high, ok := hex4(text)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(high) {
		if low, ok := hex4(text[6:]); ok {
			if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
				return r, 12
			}
		}
	}
	return high, 6
}

func hex4(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range text[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
