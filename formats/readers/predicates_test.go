package readers

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sawlog/formats"
	"sawlog/formats/parquet"
)

// predicateTypes are the types that have an order; the columns are c0, c1 ….
var predicateTypes = []string{
	"bool", "int32", "int64", "float", "double", "string", "bytes", "json", "uuid", "date", "timestamp_ms", "timestamp_us", "timestamp_ns",
	"timestamp_ms_local", "timestamp_us_local", "timestamp_ns_local", "decimal(9,2)", "decimal(18,3)", "decimal(38,5)",
}

// notANumber stands in records for NaN, which JSON has not.
const notANumber = 12345.5

// TestPredicatesLoseNoRows has every reader count rows by predicates at the
// bounds of row groups, and beside them, with all that it skips by statistics and
// dictionaries, and without: the counts must be equal. There are row groups
// without nulls, with many and with nothing else, ones whose doubles are NaN, and
// text too long to be a bound.
func TestPredicatesLoseNoRows(t *testing.T) {
	s := &formats.Schema{}
	for i, typ := range predicateTypes {
		s.Fields = append(s.Fields, formats.Field{Name: fmt.Sprint("c", i), Type: typed(typ)})
	}
	s = based(s)
	r := &random{Rand: rand.New(rand.NewPCG(3, 3))}
	var records []string
	var rows [][]any
	for i := range 400 {
		r.nulls = []int{0, 10, 70, 100}[i/50%4]
		record, row := r.record(s, i)
		replace := func(column int, value any) { // the last of two values counts
			row[column+2] = value
			text := fmt.Sprint(value)
			if s, ok := value.(string); ok && column == 5 {
				text = quoted(s)
			}
			record = fmt.Sprintf(`%s,"c%d":%s}`, strings.TrimSuffix(record, "}"), column, text)
		}
		text, _ := row[5+2].(string)
		switch {
		case i%100 == 42:
			replace(5, strings.Repeat("z", 1500)+fmt.Sprint(i))
		case strings.Contains(text, "\x00"): // SQL has no text for it
			replace(5, "null")
		}
		if i%7 == 3 && i >= 200 {
			replace(3, fmt.Sprint(notANumber))
			replace(4, fmt.Sprint(notANumber))
		}
		records, rows = append(records, record), append(rows, row)
	}
	dir := t.TempDir()
	var paths []string
	for profile := 1; profile <= parquet.Profile; profile++ {
		o := parquet.Options{Profile: profile, RowGroupRows: 50, PageBytes: 2048}
		paths = append(paths, write(t, dir, format{suffix: fmt.Sprint(profile, ".parquet"), parquet: o}, s, records, 50, withNaN))
	}
	for _, reader := range []string{"duckdb", "pyarrow", "parquet-java"} {
		t.Run(reader, func(t *testing.T) {
			lines, found := predicatesOf(r, reader, s, rows), 0
			list := filepath.Join(dir, reader)
			if err := os.WriteFile(list, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				counts := output(t, command(t, reader, "counts", path, list))
				if len(counts) != len(lines) {
					t.Fatalf("%d answers to %d predicates", len(counts), len(lines))
				}
				for i, count := range counts {
					skipping, all, _ := strings.Cut(count, " ")
					if skipping != all {
						t.Errorf("%s: %.200q finds %s rows, without skipping %s", filepath.Base(path), lines[i], skipping, all)
					}
					if all != "0" && all != fmt.Sprint(len(rows)) {
						found++
					}
				}
			}
			if found < len(lines) {
				t.Errorf("of %d predicates over all files %d find some rows and not all", len(lines), found)
			}
		})
	}
}

// withNaN puts NaN where records could not.
func withNaN(c *formats.Columns) {
	for i := range c.Leaves() {
		v := c.Vector(i)
		for k, x := range v.Doubles {
			if x == notANumber {
				v.Doubles[k] = math.NaN()
			}
		}
		for k, x := range v.Floats {
			if x == notANumber {
				v.Floats[k] = float32(math.NaN())
			}
		}
	}
}

// predicatesOf compares each column with values of some rows, by every operator
// that its type has.
func predicatesOf(r *random, reader string, s *formats.Schema, rows [][]any) (lines []string) {
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Metadata() || reader == "pyarrow" && (f.Type.Kind == formats.UUID || f.Type.Kind == formats.JSON) {
			continue // pyarrow compares no extension types
		}
		ops := []string{"=", "<>", "<", "<=", ">", ">="}
		if f.Type.Kind == formats.Bool {
			ops = ops[:2]
		}
		lines = append(lines, f.Name+"\t=\tnull", f.Name+"\t<>\tnull")
		for range max(1, *seeds/2) {
			v := rows[r.IntN(len(rows))][i]
			for v == nil || v == "null" || v == fmt.Sprint(notANumber) {
				v = rows[r.IntN(len(rows))][i]
			}
			for _, op := range ops {
				lines = append(lines, f.Name+"\t"+op+"\t"+literal(reader, f.Type, v))
			}
		}
	}
	return lines
}

// literal is a value, as readers print it, as a predicate has it: for DuckDB in
// SQL, for the others the number that is stored, or bytes in hex.
func literal(reader string, t *formats.Type, v any) string {
	switch t.Kind {
	case formats.String, formats.JSON:
		return bytesLiteral(reader, []byte(v.(string)), "'"+strings.ReplaceAll(v.(string), "'", "''")+"'")
	case formats.Bytes:
		b, err := base64.StdEncoding.DecodeString(v.(string))
		if err != nil {
			panic(err)
		}
		var sql strings.Builder
		for _, c := range b {
			fmt.Fprintf(&sql, `\x%02X`, c)
		}
		return bytesLiteral(reader, b, "'"+sql.String()+"'::blob")
	case formats.UUID:
		if text := v.(string); reader != "duckdb" {
			return text
		}
		return fmt.Sprintf("'%s'::uuid", v)
	case formats.Date:
		if reader != "duckdb" {
			return fmt.Sprint(v)
		}
		return time.Unix(int64Of(v)*86400, 0).UTC().Format("date '2006-01-02'")
	case formats.Timestamp:
		return timeLiteral(reader, t, v.(string))
	case formats.Decimal:
		return decimalLiteral(reader, t, v.(string))
	case formats.Float, formats.Double:
		if reader == "duckdb" {
			return fmt.Sprintf("'%s'::%s", v, t)
		}
	}
	return fmt.Sprint(v)
}

func bytesLiteral(reader string, b []byte, sql string) string {
	if reader == "duckdb" {
		return sql
	}
	return hex.EncodeToString(b)
}

func int64Of(v any) int64 {
	var n int64
	if _, err := fmt.Sscan(fmt.Sprint(v), &n); err != nil {
		panic(err)
	}
	return n
}

// timeLiteral is nanoseconds since the epoch in the column's unit.
func timeLiteral(reader string, t *formats.Type, nanos string) string {
	n, _ := new(big.Int).SetString(nanos, 10)
	n.Div(n, big.NewInt([...]int64{1_000_000, 1_000, 1}[t.Unit]))
	if reader != "duckdb" {
		return n.String()
	}
	if t.Local && t.Unit == formats.Nanos {
		return "make_timestamp_ns(" + n.String() + ")"
	}
	micros := new(big.Int).Div(new(big.Int).Mul(n, big.NewInt([...]int64{1_000_000, 1_000, 1}[t.Unit])), big.NewInt(1_000))
	if t.Local {
		return "make_timestamp(" + micros.String() + ")"
	}
	return "make_timestamptz(" + micros.String() + ")"
}

// decimalLiteral is a number that is given without its point.
func decimalLiteral(reader string, t *formats.Type, unscaled string) string {
	n, _ := new(big.Int).SetString(unscaled, 10)
	switch {
	case reader == "duckdb":
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Scale)), nil)
		return fmt.Sprintf("'%s'::%s", new(big.Rat).SetFrac(n, scale).FloatString(int(t.Scale)), t)
	case reader == "parquet-java" && t.Precision > 18:
		if n.Sign() < 0 {
			n.Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		return hex.EncodeToString(n.FillBytes(make([]byte, 16)))
	}
	return n.String()
}
