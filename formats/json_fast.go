package formats

import "unicode/utf8"

// The fast path reads a record once, straight into the columns. Whatever it
// does not expect ends it with a negative position; the caller then drops the
// row and reads the record again with the full decoder, which alone says what
// is wrong with a record.

// surprise is the position the fast path gives up with.
const surprise = -1

// fastJSON is the fast path's state for one record.
type fastJSON struct {
	cells
	b         []byte
	timeStart int // of the event time's value; 0 = not met
	timeEnd   int
}

// record reads the whole record.
func (f *fastJSON) record(root *object) bool {
	p := space(f.b, 0)
	if p >= len(f.b) || f.b[p] != '{' {
		return false
	}
	p = f.members(root, p+1, 0)
	return p >= 0 && space(f.b, p) == len(f.b)
}

// members reads the members of an object from behind its brace.
func (f *fastJSON) members(o *object, p int, rep int16) int {
	o.enter()
	b := f.b
	last := nothing
	p = space(b, p)
	if p < len(b) && b[p] == '}' {
		return p + 1
	}
	for {
		if p >= len(b) || b[p] != '"' {
			return surprise
		}
		p++
		at := o.first
		if last != nothing {
			at = o.slots[last].next
		}
		if at != nothing && o.slots[at].stands(b, p) {
			p += len(o.slots[at].quoted)
		} else if at, p = o.find(b, p, last); p < 0 {
			return surprise
		}
		if p < len(b) && b[p] <= ' ' {
			p = space(b, p)
		}
		if p >= len(b) {
			return surprise
		}
		if at == nothing {
			p = f.unknown(o, p)
		} else {
			if o.seen[at] == o.turn {
				return surprise // a duplicate key
			}
			o.seen[at] = o.turn
			last = at
			if s := &o.slots[at]; s.only == nil {
				p = f.member(s, p, rep)
			} else if end := f.value(s.only, p, rep); s.time {
				f.timeStart, f.timeEnd, p = p, end, end
			} else {
				p = end
			}
		}
		if p < 0 {
			return surprise
		}
		if p < len(b) && b[p] <= ' ' {
			p = space(b, p)
		}
		if p >= len(b) {
			return surprise
		}
		switch b[p] {
		case ',':
			p++
			if p < len(b) && b[p] <= ' ' {
				p = space(b, p)
			}
		case '}':
			return p + 1
		default:
			return surprise
		}
	}
}

// find reads a key that is not the one thought to come, and the colon behind it;
// at is nothing where it has no slot.
func (o *object) find(b []byte, p, last int) (at, end int) {
	end, escaped, ascii := scanString(b, p)
	if end < 0 || escaped || !ascii && !utf8.Valid(b[p:end]) {
		return nothing, surprise
	}
	at, known := o.index[string(b[p:end])]
	switch {
	case !known:
		at = nothing
	case last == nothing:
		o.first = at
	default:
		o.slots[last].next = at
	}
	if p = space(b, end+1); p >= len(b) || b[p] != ':' {
		return nothing, surprise
	}
	return at, p + 1
}

// unknown passes over the value of a key without a slot. In a watched object
// only null, [] and {} pass; a key that is no UTF-8 is none of ours either.
func (f *fastJSON) unknown(o *object, p int) int {
	switch {
	case o.rest:
		return surprise
	case !o.watch:
		return skipValue(f.b, p)
	case word(f.b, p, "null"):
		return p + 4
	case word(f.b, p, "[]"), word(f.b, p, "{}"):
		return p + 2
	default:
		return surprise
	}
}

// member reads the value of a slot into all it feeds.
func (f *fastJSON) member(s *slot, p int, rep int16) int {
	end := surprise
	for _, to := range s.sinks {
		if end = f.value(to, p, rep); end < 0 {
			return surprise
		}
	}
	if s.kids != nil && f.b[p] == '{' {
		if end = f.members(s.kids, p+1, 0); end < 0 {
			return surprise
		}
	}
	if end < 0 {
		if end = skipValue(f.b, p); end < 0 {
			return surprise
		}
	}
	if s.time {
		f.timeStart, f.timeEnd = p, end
	}
	return end
}

// value reads the value at p into a column.
func (f *fastJSON) value(s *sink, p int, rep int16) int {
	b := f.b
	c := b[p]
	if c == '"' && s.plain {
		return f.plain(s, p+1, rep)
	}
	if c == 'n' {
		if !word(b, p, "null") {
			return surprise
		}
		f.null(s, rep, s.def-1)
		return p + 4
	}
	switch s.kind {
	case List:
		return f.list(s, p, rep)
	case Struct:
		return f.structure(s, p, rep)
	case Map:
		return surprise
	case JSON:
		end := skipValue(b, p)
		if end > 0 {
			f.utf8(s, b[p:end], rep)
		}
		return end
	}
	switch c {
	case '"':
		return f.str(s, p+1, rep)
	case 't', 'f':
		end := skipScalar(b, p)
		if end < 0 || s.kind != Bool {
			return surprise
		}
		f.bool(s, c == 't', rep)
		return end
	case '{', '[':
		return surprise
	default:
		if s.kind == Int64 || s.kind == Int32 {
			if v, end := smallInt(b, p); end > 0 && (s.kind == Int64 || v == int64(int32(v))) {
				f.integer(s, v, rep)
				return end
			}
		}
		end := scanNumber(b, p)
		if end < 0 || !f.number(s, b[p:end], rep) {
			return surprise
		}
		return end
	}
}

// str reads the string whose inside starts at p.
func (f *fastJSON) str(s *sink, p int, rep int16) int {
	end, escaped, ascii := scanString(f.b, p)
	if end < 0 || escaped || !ascii || !f.text(s, f.b[p:end], rep) {
		return surprise
	}
	return end + 1
}

// plain reads the string whose inside starts at p into a column of strings.
func (f *fastJSON) plain(s *sink, p int, rep int16) int {
	vec := &f.c.vecs[s.lo]
	data, end := appendASCII(vec.Data, f.b, p)
	if end < 0 {
		if data, end = f.anyText(vec.Data, p); end < 0 {
			return surprise
		}
	}
	vec.Data = data
	vec.seal()
	vec.present(s, rep)
	return end + 1
}

// anyText appends the string whose inside starts at p, whatever it holds.
func (f *fastJSON) anyText(dst []byte, p int) ([]byte, int) {
	end, escaped, ascii := scanString(f.b, p)
	if end < 0 {
		return dst, surprise
	}
	var bad bool
	switch text := f.b[p:end]; {
	case escaped:
		var ok bool
		if dst, bad, ok = appendUnescaped(dst, text); !ok {
			return dst, surprise
		}
	case ascii:
		dst = append(dst, text...)
	default:
		dst, bad = appendUTF8(dst, text)
	}
	if bad {
		f.replaced++
	}
	return dst, end
}

// list reads an array: its first entry takes the level it stands at, further
// ones that of the list.
func (f *fastJSON) list(s *sink, p int, rep int16) int {
	b := f.b
	if b[p] != '[' {
		return surprise
	}
	p = space(b, p+1)
	if p < len(b) && b[p] == ']' {
		f.null(s, rep, s.def)
		return p + 1
	}
	for {
		if p >= len(b) {
			return surprise
		}
		if p = f.value(s.elem, p, rep); p < 0 {
			return surprise
		}
		rep = s.rep
		if p = space(b, p); p >= len(b) {
			return surprise
		}
		switch b[p] {
		case ',':
			p = space(b, p+1)
		case ']':
			return p + 1
		default:
			return surprise
		}
	}
}

// structure reads an object into a struct column; members it lacks are null.
func (f *fastJSON) structure(s *sink, p int, rep int16) int {
	if f.b[p] != '{' {
		return surprise
	}
	p = f.members(s.object, p+1, rep)
	if p < 0 {
		return surprise
	}
	f.lacking(s, rep)
	return p
}

// lacking gives a null to the members of a struct this turn did not meet.
func (k *cells) lacking(s *sink, rep int16) {
	o := s.object
	for i := range o.slots {
		if o.seen[i] != o.turn {
			for _, m := range o.slots[i].sinks {
				k.null(m, rep, s.def)
			}
		}
	}
}
