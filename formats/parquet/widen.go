package parquet

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"sawlog/formats"
)

// widener turns a value in PLAIN encoding into one of a wider type.
type widener func(dst, value []byte) ([]byte, error)

var errWide = errors.New("does not fit the wider type")

// maxExact is the largest integer up to which all are doubles.
const maxExact = 1 << 53

// newWidener makes the widener from a leaf of a file to a type; nil where the
// bytes stay as they are.
func newWidener(n *node, to *formats.Type) (widener, error) {
	from := n.t
	if !formats.Widens(from, to) {
		return nil, fmt.Errorf("%s is no wider than %s", to, from)
	}
	switch {
	case from.String() == to.String():
		return nil, nil
	case to.Kind == formats.String:
		return n.toText, nil
	case to.Kind == formats.JSON:
		return func(dst, v []byte) ([]byte, error) { return n.json(dst, v), nil }, nil
	case to.Kind == formats.Int64:
		return func(dst, v []byte) ([]byte, error) {
			return binary.LittleEndian.AppendUint64(dst, uint64(n.int(v))), nil
		}, nil
	case to.Kind == formats.Double && from.Kind == formats.Float:
		return func(dst, v []byte) ([]byte, error) {
			wide := float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
			return binary.LittleEndian.AppendUint64(dst, math.Float64bits(wide)), nil
		}, nil
	case to.Kind == formats.Double:
		return n.toDouble, nil
	case to.Kind == formats.Timestamp:
		return n.toFiner(to), nil
	default:
		return n.toDecimal(to), nil
	}
}

// int is an integer in PLAIN encoding.
func (n *node) int(v []byte) int64 {
	if n.physical == physicalInt32 {
		return int64(int32(binary.LittleEndian.Uint32(v)))
	}
	return int64(binary.LittleEndian.Uint64(v))
}

// json is text for a bool, too, which is one byte here.
func (n *node) json(dst, v []byte) []byte {
	if n.physical == physicalBool {
		return strconv.AppendBool(dst, v[0] == 1)
	}
	return n.text(dst, v)
}

// toText is the text of a scalar: that of its JSON, without quotes.
func (n *node) toText(dst, v []byte) ([]byte, error) {
	text := n.json(nil, v)
	if n.t.Kind == formats.JSON || len(text) == 0 || text[0] != '"' {
		return append(dst, text...), nil
	}
	var plain string
	err := json.Unmarshal(text, &plain)
	return append(dst, plain...), err
}

func (n *node) toDouble(dst, v []byte) ([]byte, error) {
	i := n.int(v)
	if i > maxExact || i < -maxExact {
		return dst, fmt.Errorf("%d is no double: %w", i, errWide)
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(i))), nil
}

// toFiner multiplies timestamps.
func (n *node) toFiner(to *formats.Type) widener {
	factor := int64(1)
	for range to.Unit - n.t.Unit {
		factor *= 1000
	}
	return func(dst, v []byte) ([]byte, error) {
		i := n.int(v)
		if i > math.MaxInt64/factor || i < math.MinInt64/factor {
			return dst, fmt.Errorf("timestamp %d: %w", i, errWide)
		}
		return binary.LittleEndian.AppendUint64(dst, uint64(i*factor)), nil
	}
}

// toDecimal scales integers and decimals.
func (n *node) toDecimal(to *formats.Type) widener {
	scale := big.NewInt(int64(to.Scale - n.t.Scale)) // an integer has scale 0
	factor := new(big.Int).Exp(big.NewInt(10), scale, nil)
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(to.Precision)), nil)
	return func(dst, v []byte) ([]byte, error) {
		var i *big.Int
		if n.physical == physicalInt32 || n.physical == physicalInt64 {
			i = big.NewInt(n.int(v))
		} else {
			i = signed(v)
		}
		if i = new(big.Int).Mul(i, factor); i.CmpAbs(limit) >= 0 {
			return dst, fmt.Errorf("%s is no %s: %w", n.text(nil, v), to, errWide)
		}
		switch to.Store() {
		case formats.StoreInt32:
			return binary.LittleEndian.AppendUint32(dst, uint32(i.Int64())), nil
		case formats.StoreInt64:
			return binary.LittleEndian.AppendUint64(dst, uint64(i.Int64())), nil
		default:
			var wide [16]byte
			if i.Sign() < 0 {
				i.Add(i, new(big.Int).Lsh(big.NewInt(1), 128))
			}
			return append(dst, i.FillBytes(wide[:])...), nil
		}
	}
}

// signed reads big-endian two's complement.
func signed(v []byte) *big.Int {
	n := new(big.Int).SetBytes(v)
	if len(v) > 0 && v[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}
