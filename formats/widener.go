package formats

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// Widener turns a value in PLAIN encoding, as Put takes it, into one of a wider
// type; what the wider type turns out not to hold is an error.
type Widener func(dst, value []byte) ([]byte, error)

var errWide = errors.New("does not fit the wider type")

// NewWidener makes the widener of a primitive type to another; nil where the bytes
// stay as they are.
func NewWidener(from, to *Type) (Widener, error) {
	if !Widens(from, to) {
		return nil, fmt.Errorf("%s is no wider than %s", to, from)
	}
	switch {
	case from.String() == to.String():
		return nil, nil
	case to.Kind == String:
		return from.plainText, nil
	case to.Kind == JSON:
		return func(dst, v []byte) ([]byte, error) { return from.appendJSON(dst, v), nil }, nil
	case to.Kind == Int64:
		return func(dst, v []byte) ([]byte, error) {
			return binary.LittleEndian.AppendUint64(dst, uint64(from.plainInt(v))), nil
		}, nil
	case to.Kind == Double && from.Kind == Float:
		return func(dst, v []byte) ([]byte, error) {
			wide := float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
			return binary.LittleEndian.AppendUint64(dst, math.Float64bits(wide)), nil
		}, nil
	case to.Kind == Double:
		return func(dst, v []byte) ([]byte, error) { return appendExact(dst, from.plainInt(v)) }, nil
	case to.Kind == Timestamp:
		return from.toFiner(to), nil
	default:
		return from.toDecimal(to), nil
	}
}

// plainInt is a value of an integer store in PLAIN encoding.
func (t *Type) plainInt(v []byte) int64 {
	if t.Store() == StoreInt32 {
		return int64(int32(binary.LittleEndian.Uint32(v)))
	}
	return int64(binary.LittleEndian.Uint64(v))
}

// appendJSON appends a value in PLAIN encoding as JSON.
func (t *Type) appendJSON(dst, v []byte) []byte {
	switch t.Store() {
	case StoreBool:
		if v[0] == 1 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case StoreInt32, StoreInt64:
		return t.AppendInt(dst, t.plainInt(v))
	case StoreFloat:
		return t.AppendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))))
	case StoreDouble:
		return t.AppendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(v)))
	}
	return t.AppendBytes(dst, v)
}

// plainText is the text of a scalar: that of its JSON, without quotes.
func (t *Type) plainText(dst, v []byte) ([]byte, error) {
	text := t.appendJSON(nil, v)
	if t.Kind == JSON || len(text) == 0 || text[0] != '"' {
		return append(dst, text...), nil
	}
	var plain string
	err := json.Unmarshal(text, &plain)
	return append(dst, plain...), err
}

// appendExact appends an integer as a double, if there is one.
func appendExact(dst []byte, i int64) ([]byte, error) {
	const most = 1 << 53 // up to here all integers are doubles
	if i > most || i < -most {
		return dst, fmt.Errorf("%d is no double: %w", i, errWide)
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(i))), nil
}

// toFiner multiplies timestamps.
func (t *Type) toFiner(to *Type) Widener {
	factor := int64(1)
	for range to.Unit - t.Unit {
		factor *= 1000
	}
	return func(dst, v []byte) ([]byte, error) {
		i := t.plainInt(v)
		if i > math.MaxInt64/factor || i < math.MinInt64/factor {
			return dst, fmt.Errorf("timestamp %d: %w", i, errWide)
		}
		return binary.LittleEndian.AppendUint64(dst, uint64(i*factor)), nil
	}
}

// toDecimal scales integers and decimals.
func (t *Type) toDecimal(to *Type) Widener {
	factor := powerOfTen(to.Scale - t.Scale) // an integer has scale 0
	return func(dst, v []byte) ([]byte, error) {
		var i *big.Int
		if store := t.Store(); store == StoreInt32 || store == StoreInt64 {
			i = big.NewInt(t.plainInt(v))
		} else {
			i = signed(v)
		}
		return to.appendDecimal(dst, new(big.Int).Mul(i, factor))
	}
}

func powerOfTen(n int32) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// appendDecimal appends an unscaled decimal in PLAIN encoding.
func (t *Type) appendDecimal(dst []byte, i *big.Int) ([]byte, error) {
	if i.CmpAbs(powerOfTen(t.Precision)) >= 0 {
		return dst, fmt.Errorf("%s is no %s: %w", appendPointed(nil, i.Append(nil, 10), int(t.Scale)), t, errWide)
	}
	switch t.Store() {
	case StoreInt32:
		return binary.LittleEndian.AppendUint32(dst, uint32(i.Int64())), nil
	case StoreInt64:
		return binary.LittleEndian.AppendUint64(dst, uint64(i.Int64())), nil
	}
	var wide [16]byte
	if i.Sign() < 0 {
		i = new(big.Int).Add(i, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return append(dst, i.FillBytes(wide[:])...), nil
}

// Tells says that the text of a value as JSON is enough to make it a value of a
// wider type: not that of a JSON text which becomes a string.
func Tells(from, to *Type) bool {
	switch {
	case from.Kind == JSON:
		return to.Kind != String
	case from.Kind == Struct && to.Kind == Struct:
		for i := range min(len(from.Fields), len(to.Fields)) {
			if !Tells(from.Fields[i].Type, to.Fields[i].Type) {
				return false
			}
		}
	case from.Elem != nil && to.Elem != nil:
		return Tells(from.Elem, to.Elem)
	}
	return true
}
