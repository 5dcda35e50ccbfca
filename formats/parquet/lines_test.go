package parquet

import (
	"fmt"
	"math/rand/v2"
	"time"

	"sawlog/formats"
)

// benchLines makes the benchmark's input: JSON lines of 231 bytes on average
// with 8 columns from a fixed seed. Cardinalities: ts rising, id 16 hex digits
// and unique, ip 10,000, path 2,000 with an escaped quote in every one, status
// 6, bytes about 50,000, referrer 500 and null in 10 % of the lines, agent 40.
func benchLines(n int) [][]byte {
	rnd := rand.New(rand.NewPCG(7, 11))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	statuses := [...]int{200, 200, 200, 200, 301, 304, 404, 500, 503}
	lines := make([][]byte, n)
	for i := range lines {
		at = at.Add(time.Duration(rnd.IntN(20)) * time.Millisecond)
		referrer := "null"
		if rnd.IntN(10) > 0 {
			referrer = fmt.Sprintf(`"https://site%d.example/"`, rnd.IntN(500))
		}
		page := rnd.IntN(2000)
		lines[i] = fmt.Appendf(nil, `{"ts":%q,"id":"%016x","ip":"10.%d.%d.7","path":"/shop/item-%d?q=\"%d\"","status":%d,"bytes":%d,"referrer":%s,"agent":"Mozilla/5.0 (X11; Linux x86_64) Gecko Firefox/%d"}`,
			at.Format("2006-01-02T15:04:05.000Z"), rnd.Uint64(), rnd.IntN(100), rnd.IntN(100), page, page%97,
			statuses[rnd.IntN(len(statuses))], rnd.IntN(50000), referrer, 100+rnd.IntN(40))
	}
	return lines
}

// benchSchema is the declared schema of benchLines.
func benchSchema() *formats.Schema {
	return mustSchema("ts timestamp_ms", "id string", "ip string", "path string", "status int32", "bytes int64", "referrer string", "agent string")
}

// benchOptions are the options that go with benchSchema.
func benchOptions() formats.Options {
	return formats.Options{Value: "json", Time: formats.TimeOptions{Field: []string{"ts"}, Format: "rfc3339"}}
}

// mustSchema makes a schema of "name type" texts, with the default metadata
// columns.
func mustSchema(columns ...string) *formats.Schema {
	declared := &formats.Schema{}
	for _, c := range columns {
		var name, text string
		if _, err := fmt.Sscanf(c, "%s %s", &name, &text); err != nil {
			panic(err)
		}
		t, err := formats.ParseType(text)
		if err != nil {
			panic(err)
		}
		declared.Fields = append(declared.Fields, formats.Field{Name: name, Type: t})
	}
	o := formats.Options{Value: "json"}
	s, err := o.Base(declared)
	if err != nil {
		panic(err)
	}
	return s
}
