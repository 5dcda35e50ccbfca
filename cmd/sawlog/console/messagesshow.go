package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown is a key or a value as a page shows it.
type shown struct {
	Kind  string // null | empty | json | text | hex | avro | protobuf
	Line  string // the beginning, in one line
	Text  string // more of it; "" = the line is all
	Size  int64  // bytes in the log
	Cut   bool   // the page does not show all of it
	Notes string // why it isn't shown as was asked
}

// Limits of what is shown of one key or value, in bytes of text.
const (
	lineBytes = 160
	textBytes = 16 << 10
	hexBytes  = 2 << 10 // bytes that are dumped
	levels    = 64      // of JSON that are laid out
)

// show lays out some bytes: as JSON, text or hex, or as the first of these that
// they are.
func show(p piece, how string) shown {
	s := shown{Size: int64(p.size)}
	whole := p.size == len(p.head)
	switch {
	case p.head == nil:
		s.Kind, s.Line = "null", "null"
		return s
	case p.size == 0:
		s.Kind = "empty"
		return s
	}
	isJSON := whole && how != "text" && how != "hex" && json.Valid(p.head)
	switch {
	case isJSON && fits(p.head):
		s.Kind = "json"
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, p.head, "", "  ") // it is valid
		var flat bytes.Buffer
		_ = json.Compact(&flat, p.head) // it is valid
		s.set(flat.String(), pretty.String())
	case how == "text" || how != "hex" && legible(p.head, whole):
		s.Kind = "text"
		text := strings.ToValidUTF8(string(p.head), "\ufffd")
		s.set(text, text)
	default:
		s.Kind = "hex"
		s.set(hex.EncodeToString(p.head[:min(len(p.head), lineBytes/2)]), hex.Dump(p.head[:min(len(p.head), hexBytes)]))
		s.Cut = p.size > hexBytes
	}
	if how == "json" && s.Kind != "json" {
		s.Notes = "is no JSON"
		switch {
		case !whole:
			s.Notes = "is longer than a page reads of a value"
		case isJSON:
			s.Notes = "is JSON too deep or too wide to be laid out"
		}
	}
	s.Cut = s.Cut || !whole
	return s
}

// fits tells whether valid JSON may be laid out: every line is moved in by its
// level, so a few KiB of brackets would become hundreds of MB.
func fits(text []byte) bool {
	level, size, quoted := 0, len(text), false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // the next character does not end the string
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			level++
			size += 1 + 2*level
		case c == ']', c == '}':
			level--
			size += 1 + 2*level
		case c == ',':
			size += 1 + 2*level
		case c == ':':
			size++
		}
		if level > levels || size > 8*pieceBytes {
			return false
		}
	}
	return true
}

// set takes the beginning of a text as the line, and the text where that is more.
func (s *shown) set(line, text string) {
	flat := strings.Join(strings.Fields(line), " ")
	first := cut(flat, lineBytes)
	s.Line = printable([]byte(first))
	if first != flat {
		s.Line += "…"
	}
	if text = strings.TrimRight(text, "\n"); first == text {
		return
	}
	short := cut(text, textBytes)
	s.Cut = len(short) < len(text)
	s.Text = printable([]byte(short))
}

// cut is the beginning of a text, whole characters only.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// legible tells whether bytes are text: UTF-8 without control characters. The last
// character of a beginning may be cut in two.
func legible(b []byte, whole bool) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			return !whole && len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f {
			return false
		}
		b = b[n:]
	}
	return true
}

// printable makes visible what a browser would act on or swallow: control
// characters, those that turn the direction of text, and bytes that are no UTF-8.
func printable(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, b[0])
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
		b = b[n:]
	}
	return out.String()
}
