package formats

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"unicode/utf8"
)

// pieces make strings that end, escape and surprise at every place of a word.
var pieces = []string{`"`, `\`, `\"`, `\\`, `\n`, `\u00e9`, `\ud83d\ude00`, `\ud800`, `\x`, `\u12`, "\x00", "\x1f", " ", "~", "\x7f", "\x80", "\xff", "é", "€", "😀", "a", "abcdefg", "01234567", "x,y:z"}

func randomText(rnd *rand.Rand, plain int) []byte {
	var b []byte
	for range rnd.IntN(12) {
		if rnd.IntN(10) < plain {
			b = append(b, "abcdefghijklmnop"[:rnd.IntN(16)]...)
		} else {
			b = append(b, pieces[rnd.IntN(len(pieces))]...)
		}
	}
	return b
}

// scanSlowly does what scanString does, byte by byte.
func scanSlowly(b []byte, p int) (end int, escaped, ascii bool) {
	ascii = true
	for ; p < len(b); p++ {
		if b[p] == '"' {
			return p, escaped, ascii
		}
		if b[p] == '\\' {
			escaped = true
			p++
		}
		if p == len(b) || b[p] < ' ' {
			break
		}
		ascii = ascii && b[p] < utf8.RuneSelf
	}
	return -1, false, false
}

// TestScanString compares the scan of eight bytes at a time with that of one.
func TestScanString(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	ends := 0
	for i := range 200_000 {
		b := randomText(rnd, i%10)
		p := rnd.IntN(len(b) + 1)
		end, escaped, ascii := scanString(b, p)
		wantEnd, wantEscaped, wantASCII := scanSlowly(b, p)
		if end != wantEnd || escaped != wantEscaped || ascii != wantASCII {
			t.Fatalf("%q from %d: %d %t %t, want %d %t %t", b, p, end, escaped, ascii, wantEnd, wantEscaped, wantASCII)
		}
		if end >= 0 {
			ends++
		}
	}
	if ends < 10_000 {
		t.Errorf("only %d strings ended", ends)
	}
}

// TestUnescape compares with encoding/json, which puts U+FFFD in the same places.
func TestUnescape(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	good, replacements := 0, 0
	for i := range 200_000 {
		text := randomText(rnd, i%10)
		if end, _, _ := scanString(append(bytes.Clone(text), '"'), 0); end != len(text) {
			continue // no inside of a string
		}
		got, replaced, ok := appendUnescaped([]byte("before "), text)
		var want string
		err := json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &want)
		if ok != (err == nil) {
			t.Fatalf("%q: %t, encoding/json says %v", text, ok, err)
		}
		if !ok {
			continue
		}
		good++
		if string(got) != "before "+want {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
		// The records hold no U+FFFD of their own.
		if replaced != bytes.ContainsRune([]byte(want), utf8.RuneError) {
			t.Fatalf("%q: replaced %t", text, replaced)
		}
		if replaced {
			replacements++
		}
	}
	if good < 20_000 || replacements < 5_000 {
		t.Errorf("%d strings were good, %d of them with replacements", good, replacements)
	}
}

// TestSmallInt compares with strconv: of what begins like a number, integers of
// up to 18 digits are read and nothing else.
func TestSmallInt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	read := 0
	for range 200_000 {
		var b []byte
		for range 1 + rnd.IntN(21) {
			b = append(b, "0123456789012345678901234567890123456789-.eE,}"[rnd.IntN(46)])
		}
		want, end := int64(0), scanNumber(b, 0)
		if end > 0 {
			v, err := strconv.ParseInt(string(b[:end]), 10, 64)
			if digits := len(bytes.TrimPrefix(b[:end], []byte("-"))); err != nil || digits > 18 || isMinusZero(b[:end]) {
				end = -1
			}
			want = v
		}
		if end < 0 {
			want = 0
		}
		if v, at := smallInt(b, 0); at != end || at > 0 && v != want {
			t.Fatalf("%q: %d up to %d, want %d up to %d", b, v, at, want, end)
		}
		if end > 0 {
			read++
		}
	}
	if read < 50_000 {
		t.Errorf("only %d numbers were read", read)
	}
}

// TestSlotStands looks for keys of every length at every distance from the end.
func TestSlotStands(t *testing.T) {
	const text = `key-of-some-length`
	for n := range len(text) + 1 {
		o := newObject(nil)
		s := o.slot(text[:n])
		record := []byte(text[:n] + `":1}, and more`)
		for end := range len(record) + 1 {
			got, want := s.stands(record[:end], 0), end >= max(n+2, 8)
			if got != want {
				t.Errorf("key of %d bytes in %q: %t", n, record[:end], got)
			}
		}
		for i := range n + 2 {
			other := bytes.Clone(record)
			other[i]++
			if s.stands(other, 0) {
				t.Errorf("key of %d bytes was seen in %q", n, other)
			}
		}
	}
	if o := newObject(nil); o.slot("a\"b").stands([]byte(`a\"b":1 and more`), 0) {
		t.Error("a key with a quote was taken as it stands")
	}
}

// TestAppendASCII compares text that is copied while it is scanned with text that
// is scanned first, at every distance from the end of the record. What is taken in
// one go must be all that is ASCII without \u.
func TestAppendASCII(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	taken := 0
	for i := range 200_000 {
		b := append(randomText(rnd, i%10), `"`...)
		b = append(b, `,"k":1}`[:rnd.IntN(8)]...)
		p := rnd.IntN(len(b) + 1)
		before := []byte("before")[:rnd.IntN(7)]
		dst := append(make([]byte, 0, rnd.IntN(64)), before...)
		got, end := appendASCII(dst, b, p)
		f := fastJSON{b: b}
		want, wantEnd := f.anyText(before[:len(before):len(before)], p)
		simple := wantEnd >= 0 && wantEnd+1 < len(b)
		for at := p; simple && at < wantEnd; at++ {
			if b[at] == '\\' {
				at++
				simple = b[at] != 'u'
			}
			simple = simple && b[at] < utf8.RuneSelf
		}
		switch {
		case simple != (end >= 0):
			t.Fatalf("%q from %d: ends at %d, want %d", b, p, end, wantEnd)
		case !simple && !bytes.Equal(got, before):
			t.Fatalf("%q from %d: left %q behind %q", b, p, got, before)
		case simple && (end != wantEnd || !bytes.Equal(got, want)):
			t.Fatalf("%q from %d: %q to %d, want %q to %d", b, p, got, end, want, wantEnd)
		case simple:
			taken++
		}
	}
	if taken < 20_000 {
		t.Errorf("%d texts were taken in one go", taken)
	}
}
