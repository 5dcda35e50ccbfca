package formats

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
)

// sink is a type laid over the leaves of Columns: where a decoded value goes.
type sink struct {
	kind   Kind
	t      *Type
	name   string // dotted names, for messages
	lo, hi int    // leaves [lo, hi)
	def    int16  // definition level of a present value
	rep    int16  // of a list or map: repetition level of its further entries; of a primitive: that of the lists it is in
	elem   *sink  // of a list or map
	object *object
	hash   bool // the value is replaced by its sha256
	plain  bool // a string that is not
	times  *timeFormat
	epoch  bool // numbers are in the unit of times, not of the column
}

// newSink lays t over the leaves from lo on; def is the level at which a value
// of t is present.
func newSink(t *Type, name string, lo int, def, rep int16) *sink {
	return &sink{kind: t.Kind, t: t, name: name, lo: lo, hi: lo + t.width(), def: def, rep: rep}
}

// cells puts values into the columns of the row at hand.
type cells struct {
	c        *Columns
	ref      int64 // the record's timestamp, for times without a year
	replaced int64 // values with bytes that were no UTF-8
	scratch  []byte

	// The text that was last read in the job's format of times, where it stands,
	// and what it says.
	seenTime   []byte
	seenMoment moment
}

// null gives all leaves of s one entry of levels: not present beyond def.
func (k *cells) null(s *sink, rep, def int16) {
	for i := s.lo; i < s.hi; i++ {
		k.c.vecs[i].level(&k.c.leaves[i], def, rep)
	}
}

// at is the vector and leaf of a primitive sink.
func (k *cells) at(s *sink) (*Vector, *Leaf) { return &k.c.vecs[s.lo], &k.c.leaves[s.lo] }

// present appends the levels of a value of the primitive s.
func (v *Vector) present(s *sink, rep int16) {
	if s.def > 0 {
		v.Def = append(v.Def, s.def)
	}
	if s.rep > 0 {
		v.Rep = append(v.Rep, rep)
	}
	if rep == 0 {
		v.rows++
	}
}

func (k *cells) int32(s *sink, v int32, rep int16) {
	vec := &k.c.vecs[s.lo]
	vec.Int32s = append(vec.Int32s, v)
	vec.present(s, rep)
}

// integer adds a value that an Int32 or Int64 column can hold.
func (k *cells) integer(s *sink, v int64, rep int16) {
	if s.kind == Int32 {
		k.int32(s, int32(v), rep)
	} else {
		k.int64(s, v, rep)
	}
}

func (k *cells) int64(s *sink, v int64, rep int16) {
	vec := &k.c.vecs[s.lo]
	vec.Int64s = append(vec.Int64s, v)
	vec.present(s, rep)
}

func (k *cells) bool(s *sink, v bool, rep int16) {
	vec := &k.c.vecs[s.lo]
	vec.Bools = append(vec.Bools, v)
	vec.present(s, rep)
}

// bytes adds the value as it is.
func (k *cells) bytes(s *sink, v []byte, rep int16) {
	vec := &k.c.vecs[s.lo]
	vec.Data = append(vec.Data, v...)
	vec.seal()
	vec.present(s, rep)
}

// utf8 adds text, repaired where it is no UTF-8.
func (k *cells) utf8(s *sink, text []byte, rep int16) {
	vec := &k.c.vecs[s.lo]
	var bad bool
	if vec.Data, bad = appendUTF8(vec.Data, text); bad {
		k.replaced++
	}
	vec.seal()
	vec.present(s, rep)
}

// digest adds the sha256 of the value in hex.
func (k *cells) digest(s *sink, value []byte, rep int16) {
	vec, leaf := k.at(s)
	sum := sha256.Sum256(value)
	vec.Data = hex.AppendEncode(vec.Data, sum[:])
	vec.seal()
	vec.level(leaf, s.def, rep)
}

// text adds a string value to a column of any primitive type but JSON; false
// when it does not fit. Numbers and booleans are never read from text here.
func (k *cells) text(s *sink, text []byte, rep int16) bool {
	switch {
	case s.hash:
		k.digest(s, text, rep)
		return true
	case s.kind == String:
		k.utf8(s, text, rep)
		return true
	}
	switch s.kind {
	case Bytes:
		k.bytes(s, text, rep)
	case Timestamp:
		return k.time(s, text, rep)
	case Date:
		days, ok := isoDate(text)
		if !ok {
			return false
		}
		k.int32(s, days, rep)
	case UUID:
		id, ok := parseUUID(text)
		if !ok {
			return false
		}
		k.bytes(s, id[:], rep)
	case Decimal:
		return k.decimal(s, text, rep)
	default:
		return false
	}
	return true
}

// number adds a number literal to a column; false when it does not fit.
func (k *cells) number(s *sink, text []byte, rep int16) bool {
	if s.hash {
		k.digest(s, text, rep)
		return true
	}
	switch s.kind {
	case Int64, Int32:
		v, ok := parseInt(text)
		if !ok || isMinusZero(text) || s.kind == Int32 && v != int64(int32(v)) {
			return false
		}
		if s.kind == Int32 {
			k.int32(s, int32(v), rep)
		} else {
			k.int64(s, v, rep)
		}
	case Double, Float:
		return k.float(s, text, rep)
	case Decimal:
		return k.decimal(s, text, rep)
	case Timestamp:
		unit := [...]int{3, 6, 9}[s.t.Unit]
		if s.epoch {
			unit = s.times.unit
		}
		m, ok := epochTime(text, unit)
		if !ok {
			return false
		}
		v, ok := m.in(s.t.Unit)
		if !ok {
			return false
		}
		k.int64(s, v, rep)
	default:
		return false
	}
	return true
}

func (k *cells) float(s *sink, text []byte, rep int16) bool {
	v, ok := parseDouble(text)
	if !ok || (v >= maxExactInt || v <= -maxExactInt) && !exactDouble(text) {
		return false
	}
	vec, leaf := k.at(s)
	if s.kind == Double {
		vec.Doubles = append(vec.Doubles, v)
	} else {
		if math.Abs(v) > math.MaxFloat32 {
			return false
		}
		narrow, err := strconv.ParseFloat(string(text), 32)
		if err != nil {
			return false
		}
		vec.Floats = append(vec.Floats, float32(narrow))
	}
	vec.level(leaf, s.def, rep)
	return true
}

func (k *cells) decimal(s *sink, text []byte, rep int16) bool {
	d, ok := parseDecimal(text, s.t.Precision, s.t.Scale)
	if ok {
		k.number128(s, d, rep)
	}
	return ok
}

// number128 adds a number of the column's scale that its precision holds.
func (k *cells) number128(s *sink, d decimal, rep int16) {
	vec, leaf := k.at(s)
	switch leaf.Store {
	case StoreInt32:
		vec.Int32s = append(vec.Int32s, int32(d.int64()))
	case StoreInt64:
		vec.Int64s = append(vec.Int64s, d.int64())
	default:
		vec.Data = d.append(vec.Data)
		vec.seal()
	}
	vec.level(leaf, s.def, rep)
}

// time adds text to a timestamp column: by the job's format, else RFC 3339. A
// local column keeps the reading of the clock and drops a written zone.
func (k *cells) time(s *sink, text []byte, rep int16) bool {
	var m moment
	ok := false
	if s.t.Local {
		c, read := iso(text)
		c.zoned, c.offset = true, 0
		if m, ok = c.at(nil); !read {
			ok = false
		}
		if !ok && s.times.ops != nil {
			m, ok = s.times.localText(text, k.ref)
		}
	} else {
		if !s.times.textual() && !s.epoch {
			m, ok = moment{}, false
		} else {
			if m, ok = s.times.text(text, k.ref); ok {
				k.seenTime, k.seenMoment = text, m
			}
		}
		if !ok {
			if c, read := iso(text); read {
				m, ok = c.at(s.times.zone)
			}
		}
	}
	if !ok {
		return false
	}
	v, ok := m.in(s.t.Unit)
	if ok {
		k.int64(s, v, rep)
	}
	return ok
}

// parseUUID reads 8-4-4-4-12 hex digits.
func parseUUID(b []byte) (id [16]byte, ok bool) {
	if len(b) != 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return id, false
	}
	at := 0
	for i := 0; i < 36; i += 2 {
		if b[i] == '-' {
			i++
		}
		if _, err := hex.Decode(id[at:at+1], b[i:i+2]); err != nil {
			return id, false
		}
		at++
	}
	return id, true
}
