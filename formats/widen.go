package formats

import (
	"encoding/binary"
	"math"
)

// Widens tells whether every value of one type is a value of another, or can be
// for all a schema says: a rewrite of files may then turn the first into the
// second. Integers and doubles that a wider type turns out not to hold are
// errors of that rewrite. Structs may gain members.
//
//	bool, numbers, date, uuid, timestamps, json → string, json
//	string → json is not widening: text need not be JSON
//	int32 → int64 → decimal, double;  float → double;  decimal → wider decimal
//	timestamp_ms → timestamp_us → timestamp_ns, each with or without a zone
func Widens(from, to *Type) bool {
	if from == nil || to == nil {
		return from == to
	}
	switch {
	case from.Kind == Struct && to.Kind == Struct:
		return widensFields(from.Fields, to.Fields)
	case from.Kind == List && to.Kind == List, from.Kind == Map && to.Kind == Map:
		return Widens(from.Elem, to.Elem)
	case from.Kind == Struct, from.Kind == List, from.Kind == Map:
		return false
	case from.Kind == to.Kind:
		return widensWithin(from, to)
	}
	switch to.Kind {
	case String:
		return from.Kind != Bytes
	case JSON:
		return from.Kind != Bytes && from.Kind != String
	case Int64:
		return from.Kind == Int32
	case Double:
		return from.Kind == Int32 || from.Kind == Int64 || from.Kind == Float
	case Decimal:
		return from.Kind == Int32 || from.Kind == Int64
	default:
		return false
	}
}

// widensWithin is for two types of one kind.
func widensWithin(from, to *Type) bool {
	switch from.Kind {
	case Timestamp:
		return from.Local == to.Local && from.Unit <= to.Unit
	case Decimal:
		return to.Scale >= from.Scale && to.Precision-to.Scale >= from.Precision-from.Scale
	default:
		return true
	}
}

// widensFields wants each member in the same place, wider or as it is, before
// new ones.
func widensFields(from, to []Field) bool {
	if len(to) < len(from) {
		return false
	}
	for i := range from {
		if from[i].Name != to[i].Name || !Widens(from[i].Type, to[i].Type) {
			return false
		}
	}
	return true
}

// Put appends one entry to a leaf, as the file formats have them: levels and,
// where def is the leaf's highest, a value in Parquet's PLAIN encoding without
// a length; a bool is one byte. rep is 0 where a row begins.
func (c *Columns) Put(leaf int, def, rep int16, value []byte) {
	l, v := &c.leaves[leaf], &c.vecs[leaf]
	v.level(l, def, rep)
	if def < l.MaxDef {
		return
	}
	v.put(l.Store, value)
}

// EndRow ends the row that was put: leaves it has not reached are null.
func (c *Columns) EndRow() { c.endRow() }

func (v *Vector) put(store Store, value []byte) {
	switch store {
	case StoreBool:
		v.Bools = append(v.Bools, value[0] == 1)
	case StoreInt32:
		v.Int32s = append(v.Int32s, int32(binary.LittleEndian.Uint32(value)))
	case StoreInt64:
		v.Int64s = append(v.Int64s, int64(binary.LittleEndian.Uint64(value)))
	case StoreFloat:
		v.Floats = append(v.Floats, math.Float32frombits(binary.LittleEndian.Uint32(value)))
	case StoreDouble:
		v.Doubles = append(v.Doubles, math.Float64frombits(binary.LittleEndian.Uint64(value)))
	case StoreBytes, StoreFixed16:
		v.Data = append(v.Data, value...)
		v.seal()
	}
}
