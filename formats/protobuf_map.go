package formats

import (
	"strconv"

	"sawlog/formats/protobuf"
)

// mapping puts the entries of a map into its column, in the order in which
// their keys last came; a key that comes again has its last value.
func (r *pbReader) mapping(f *protobuf.Field, t *pbTake, head pbHead, rep int16) bool {
	heads, values, base := len(r.heads), len(r.values), len(r.entries)
	defer func() {
		r.close(heads, values)
		r.entries = r.entries[:base]
	}()
	for at := head.first; at >= 0; at = r.values[at].next {
		v := r.values[at]
		entry := r.open(t.sub)
		if !r.scan(t.sub, entry, v.start, v.end) {
			return false
		}
		var key []byte
		if last := r.heads[entry].last; last >= 0 {
			key = r.b[r.values[last].start:r.values[last].end]
		}
		r.entries = append(r.entries, mapEntry{pbKey(t.sub.fields[0].f, key), entry + 1})
	}
	r.lastWins(base)
	if len(r.entries) == base {
		r.null(t.s, rep, t.s.def)
		return true
	}
	keys, leaf := &r.c.vecs[t.s.lo], &r.c.leaves[t.s.lo]
	value := t.sub.fields[1].f
	for i, last := base, len(r.entries); i < last; i++ {
		e := r.entries[i]
		var bad bool
		if keys.Data, bad = appendUTF8(keys.Data, e.key); bad {
			r.replaced++
		}
		keys.seal()
		keys.level(leaf, t.s.def+1, rep)
		if !r.entry(value, t.one, r.heads[e.at], rep) {
			return false
		}
		rep = t.s.rep
	}
	return true
}

// entry puts an entry's value into the column; what is absent is the zero value.
func (r *pbReader) entry(f *protobuf.Field, t *pbTake, head pbHead, rep int16) bool {
	if f.Kind == protobuf.Submessage {
		if head.first < 0 { // an empty message
			r.values = append(r.values, pbValue{next: -1})
			head.first = len(r.values) - 1
		}
		return r.submessage(f.Message, t, head.first, rep)
	}
	var b []byte
	if head.last >= 0 {
		b = r.b[r.values[head.last].start:r.values[head.last].end]
	}
	return r.scalar(f, t.s, b, rep)
}

// pbKey is the text of a map's key.
func pbKey(f *protobuf.Field, b []byte) []byte {
	switch f.Kind {
	case protobuf.String:
		return b
	case protobuf.Bool:
		u, _ := uvarint(b)
		return strconv.AppendBool(nil, u != 0)
	default:
		v, wide := pbInteger(f.Kind, b)
		return appendInteger(nil, v, wide)
	}
}

// lastWins drops the entries from base on whose key comes again.
func (r *pbReader) lastWins(base int) {
	kept, twice := lastWins(r.entries[base:], &r.keys)
	r.entries, r.twice = r.entries[:base+len(kept)], r.twice+twice
}
