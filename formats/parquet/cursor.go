package parquet

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// cursorLevels is how many levels a cursor reads at a time.
const cursorLevels = 1024

// cursor reads one column of a row group entry by entry.
type cursor struct {
	column   file.ColumnChunkReader
	leaf     *schema.Column
	def, rep []int16
	at       int
	texts    [][]byte // values of this batch as JSON
	value    int
}

// fill makes sure that there is an entry.
func (c *cursor) fill() error {
	more, err := c.more()
	if err == nil && !more {
		return errShort
	}
	return err
}

// more says whether there is another entry, reading on if need be.
func (c *cursor) more() (bool, error) {
	if c.at < len(c.def) {
		return true, nil
	}
	c.def, c.rep = make([]int16, cursorLevels), make([]int16, cursorLevels)
	c.at, c.value, c.texts = 0, 0, c.texts[:0]
	n, err := c.batch()
	if err != nil {
		return false, err
	}
	c.def, c.rep = c.def[:n], c.rep[:n]
	present := 0
	for _, d := range c.def {
		if d == c.leaf.MaxDefinitionLevel() {
			present++
		}
	}
	if present != len(c.texts) {
		return false, fmt.Errorf("%d values for %d entries", len(c.texts), present)
	}
	return n > 0, nil
}

// take appends the value of the next entry, or null.
func (c *cursor) take(dst []byte, def int16) []byte {
	here := c.def[c.at]
	c.at++
	if here < def {
		return append(dst, "null"...)
	}
	c.value++
	return append(dst, c.texts[c.value-1]...)
}

// batch reads the next levels and values.
func (c *cursor) batch() (n int64, err error) {
	switch r := c.column.(type) {
	case *file.BooleanColumnChunkReader:
		return readValues(c, r.ReadBatch, strconv.AppendBool)
	case *file.Int32ColumnChunkReader:
		return readValues(c, r.ReadBatch, func(b []byte, v int32) []byte { return c.integer(b, int64(v)) })
	case *file.Int64ColumnChunkReader:
		return readValues(c, r.ReadBatch, c.integer)
	case *file.Float32ColumnChunkReader:
		return readValues(c, r.ReadBatch, func(b []byte, v float32) []byte { return appendFloat(b, float64(v), 32) })
	case *file.Float64ColumnChunkReader:
		return readValues(c, r.ReadBatch, func(b []byte, v float64) []byte { return appendFloat(b, v, 64) })
	case *file.ByteArrayColumnChunkReader:
		return readValues(c, r.ReadBatch, func(b []byte, v parquet.ByteArray) []byte { return c.binary(b, v) })
	case *file.FixedLenByteArrayColumnChunkReader:
		return readValues(c, r.ReadBatch, func(b []byte, v parquet.FixedLenByteArray) []byte { return c.binary(b, v) })
	default:
		return 0, fmt.Errorf("values of type %s are not read", c.leaf.PhysicalType())
	}
}

func readValues[T any](c *cursor, read func(int64, []T, []int16, []int16) (int64, int, error), text func([]byte, T) []byte) (int64, error) {
	values := make([]T, cursorLevels)
	var total int64
	for total == 0 && c.column.HasNext() {
		n, got, err := read(cursorLevels, values, c.def, c.rep)
		if err != nil {
			return 0, err
		}
		for _, v := range values[:got] {
			c.texts = append(c.texts, text(nil, v))
		}
		if total = n; n == 0 && got == 0 {
			return 0, errShort
		}
	}
	if c.leaf.MaxDefinitionLevel() == 0 {
		clear(c.def)
	}
	if c.leaf.MaxRepetitionLevel() == 0 {
		clear(c.rep)
	}
	return total, c.column.Err()
}

// integer is an integer column's value by its logical type.
func (c *cursor) integer(b []byte, v int64) []byte {
	switch l := c.leaf.LogicalType().(type) {
	case schema.DateLogicalType, *schema.DateLogicalType:
		return time.Unix(v*86400, 0).UTC().AppendFormat(b, `"2006-01-02"`)
	case schema.DecimalLogicalType:
		return appendDecimal(b, big.NewInt(v), int(l.Scale()))
	case *schema.DecimalLogicalType:
		return appendDecimal(b, big.NewInt(v), int(l.Scale()))
	case schema.TimestampLogicalType:
		return appendTime(b, v, &l)
	case *schema.TimestampLogicalType:
		return appendTime(b, v, l)
	}
	return strconv.AppendInt(b, v, 10)
}

func appendTime(b []byte, v int64, l *schema.TimestampLogicalType) []byte {
	var at time.Time
	layout := "2006-01-02T15:04:05"
	switch l.TimeUnit() {
	case schema.TimeUnitMillis:
		at, layout = time.UnixMilli(v), layout+".000"
	case schema.TimeUnitMicros:
		at, layout = time.UnixMicro(v), layout+".000000"
	default:
		at, layout = time.Unix(0, v), layout+".000000000"
	}
	if l.IsAdjustedToUTC() {
		layout += "Z"
	}
	return at.UTC().AppendFormat(b, `"`+layout+`"`)
}

func appendDecimal(b []byte, v *big.Int, scale int) []byte {
	text := new(big.Int).Abs(v).String()
	if v.Sign() < 0 {
		b = append(b, '-')
	}
	if scale == 0 {
		return append(b, text...)
	}
	for len(text) <= scale {
		text = "0" + text
	}
	b = append(b, text[:len(text)-scale]...)
	return append(append(b, '.'), text[len(text)-scale:]...)
}

func appendFloat(b []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendQuote(b, strconv.FormatFloat(v, 'g', -1, bits))
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}

// binary is a byte value by its logical type; plain bytes are in base64.
func (c *cursor) binary(b, v []byte) []byte {
	switch l := c.leaf.LogicalType().(type) {
	case schema.StringLogicalType, *schema.StringLogicalType:
		quoted, _ := json.Marshal(string(v)) // a string always marshals
		return append(b, quoted...)
	case schema.JSONLogicalType, *schema.JSONLogicalType:
		if json.Valid(v) {
			return append(b, v...)
		}
	case schema.UUIDLogicalType, *schema.UUIDLogicalType:
		if len(v) == 16 {
			h := hex.EncodeToString(v)
			return strconv.AppendQuote(b, h[:8]+"-"+h[8:12]+"-"+h[12:16]+"-"+h[16:20]+"-"+h[20:])
		}
	case schema.DecimalLogicalType:
		return appendDecimal(b, signed(v), int(l.Scale()))
	case *schema.DecimalLogicalType:
		return appendDecimal(b, signed(v), int(l.Scale()))
	}
	return strconv.AppendQuote(b, base64.StdEncoding.EncodeToString(v))
}

// signed reads big-endian two's complement.
func signed(v []byte) *big.Int {
	n := new(big.Int).SetBytes(v)
	if len(v) > 0 && v[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return n
}
