package console

import (
	"runtime"
	"strings"
	"testing"
)

// TestDeepJSONIsText: laid out, each level of JSON moves what is in it further in,
// so that a value of some KiB would become hundreds of MB.
func TestDeepJSONIsText(t *testing.T) {
	nested := func(depth int, within string) piece {
		text := strings.Repeat("[", depth) + within + strings.Repeat("]", depth)
		return piece{[]byte(text), len(text)}
	}
	wide := strings.Repeat("0,", 12<<10) + "0"
	for name, c := range map[string]struct {
		p    piece
		kind string
	}{
		"as deep as is laid out": {nested(levels, ""), "json"},
		"a level deeper":         {nested(levels+1, ""), "text"},
		"very deep":              {nested(10_000, ""), "text"},
		"deep and wide":          {nested(levels, wide), "text"},
		"brackets in a string":   {nested(1, `"`+strings.Repeat(`[{\"`, 500)+`"`), "json"},
		"a backslash at the end": {nested(1, `"\\",`+strings.Repeat("[", levels-1)+strings.Repeat("]", levels-1)), "json"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := show(c.p, "json")
		runtime.ReadMemStats(&after)
		if got.Kind != c.kind || (got.Notes == "") != (c.kind == "json") {
			t.Errorf("%s: %s, note %q", name, got.Kind, got.Notes)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
			t.Errorf("%s took %d bytes", name, took)
		}
	}
}
