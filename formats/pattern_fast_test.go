package formats

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// compiled are the patterns with a name.
var compiled = sync.OnceValue(func() map[string]*pattern {
	all := map[string]*pattern{}
	for _, name := range PatternNames() {
		p, err := compilePattern(PatternText(name))
		if err != nil || p.fast == nil {
			panic(fmt.Sprintf("%s has no matcher: %v", name, err))
		}
		all[name] = p
	}
	return all
})

// bothWays splits a line by a pattern with a name, by its matcher and by its
// expression; fast is "" where the matcher leaves the line to the expression.
func bothWays(tb testing.TB, name string, line []byte) (fast, slow string) {
	tb.Helper()
	p := compiled()[name]
	show := func(fields []textField) string {
		var out strings.Builder
		for i, f := range fields {
			if f.null {
				fmt.Fprintf(&out, "%s null, ", p.names[i])
			} else {
				fmt.Fprintf(&out, "%s %q, ", p.names[i], f.text)
			}
		}
		return out.String()
	}
	fields := make([]textField, len(p.names))
	if p.fast(line, fields) {
		fast = show(fields)
	}
	fields = make([]textField, len(p.names))
	if p.match(line, fields) {
		slow = show(fields)
	}
	return fast, slow
}

// oddLines are lines at whose edges the parts of patterns end.
var oddLines = []string{
	`h i u [t] "GET / HTTP/1.1" 200 5 "-" "-"`, `h - - [t] "-" - -`, `h - - [t] "-" - - "" ""`, `- - - [-] "-" 200 0`,
	`h i a b c [t] "" 200 1`, `h i a b c d e [t] "" 200 1`, `h i a [b [t] "" 200 1`, `h i a [b] [t] "" 200 1`, `h i [ [t] "" 200 1`, `h i  [t] "" 200 1`,
	`h - - [x] "y [t] "" 200 1`, `h - - x [t] "-x" 200 1`, `h - -  [t] "" 200 1`, `h - -x [t] "A- /\ b HTTP/1." 200 1`, `h - - [t] "G_-T /a\"b HTTP/.." 304 -`,
	`h - - [t] "GET  HTTP/1.1" 200 1`, `h - - [t] "GET / HTTP/" 200 1`, `h - - [t] "GET /a	b HTTP/1.1" 200 1`, `h - - [t] "GET / x HTTP/1.1" 200 1`, `h - - [t] "_ET / HTTP/1.1" 200 1`,
	`h - - [t] "GET /\\ HTTP/1.1" 200 1`, `h - - [t] "GET /\" HTTP/1.1" 200 1`, `h - - [t] "a\\" 200 1`, `h - - [t] "a\` + "\n" + `" 200 1`, `h - - [t] "a` + "\n" + `b" 200 1`, `h - - [t` + "\n" + `] "" 200 1`,
	`h - - [] "" 200 1`, `h - - [t]  "" 200 1`, `h - - [t] "" 2000 1`, `h - - [t] "" 20 1`, `h - - [t] "" 200 1x`, `h - - [t] "" 200  1`, `h - - [t] "" 200 1 `, `h - - [t] "" -- 1`, `h - - [t] "" 200 --`,
	"h\v - - [t] \"\" 200 1", "h\u00a0\u0085 - \xff\xfe [\xff] \"\xff\\\xff\" 200 1", "h\t - - [t] \"\" 200 1", "h - - [t] \"GET /\\\u00e9 HTTP/1.1\" 200 1",
	`h - - [t] "" 200 1 "-" "a"b"`, `h - - [t] "" 200 1 "\"" "\\"`, `h - - [t] "" 200 1 "a" "b" `, `h - - [t] "" 200 - "a"  "b"`, `h - - [t] "" 200 1 "a" "`, `h - - [t] "" 200 1 "a` + "\n" + `" "-"`,
	`<1>Mar  7 03:06:56 h p[1]: m`, `<>Mar  7 03:06:56 h p: m`, `<1234>Mar  7 03:06:56 h p: m`, `<12a>Mar  7 03:06:56 h p: m`, `<1Mar  7 03:06:56 h p: m`, `Mar  7 03:06:56 h p[1] m`, `Mar  7 03:06:56 h p[1]:m`,
	`Mar  7 03:06:56 h p[1]:  m`, `Mar  7 03:06:56 h p[]: m`, `Mar  7 03:06:56 h p[x]: m`, `Mar  7 03:06:56 h p[1]x]: m`, `Mar  7 03:06:56 h [1]: m`, `Mar  7 03:06:56 h : m`, `Mar  7 03:06:56 h p:`, `Mar  7 03:06:56 h p:m`, `Mar  7 03:06:56 h p`,
	`Mar  7 03:06:56 h `, `Mar  7 03:06:56 h`, `Mar  7 03:06:56  h p: m`, `Mar 77 03:06:56 h p: m`, `mar  7 03:06:56 h p: m`, `MaR  7 03:06:56 h p: m`, `Mar  7 03:06:5 h p: m`, `2026-11-29T h p: m`, `2026-11-29Tx h p: m`, `2026-11-29T14:00 h p:` + "\n\t",
	`2026-1-29T14:00 h p: m`, "2026-11-29T\t h p: m", "Mar  7 03:06:56 h p\xff[1]: \xff", "Mar  7 03:06:56 h p\u00e9: \u00e9", "Mar  7 03:06:56 h p\tq: m", `Mar  7 03:06:56 h a b: m`, "Mar  7 03:06:56 h\t p: m", ``, ` `, `<`, `[`, `"`,
}

// sameWays wants a matcher that takes a line to lay the fields of the expression.
func sameWays(tb testing.TB, line []byte) {
	tb.Helper()
	for _, name := range PatternNames() {
		if fast, slow := bothWays(tb, name, line); fast != "" && fast != slow {
			tb.Errorf("%s of %q\nis     %s\nwant   %s", name, line, fast, slow)
		}
	}
}

// TestFastPatterns holds matchers to the expressions of their patterns: on lines at
// the edges, and on these and good ones with bytes changed, left out and doubled.
// Good lines are not left to the expressions.
func TestFastPatterns(t *testing.T) {
	good := map[string][]string{
		"combined": {accessLine, `h - - [t] "\x16\"" 400 - "-" "a \"b\""`, `h i John Q Public [t] "M-SEARCH / HTTP/2.0" 304 0 "" "-"`},
		"common":   {accessLine[:strings.Index(accessLine, ` "http`)], `h i John Q Public [t] "-" - -`, `h - - [t] "" 400 0`},
		"syslog":   {`Mar  7 03:06:56 web1 sshd[1291]: Server listening`, `<34>Oct 11 22:14:15 h su: 'su root' failed`, `2026-11-29T14:00:00.5+01:00 h last message`, "Mar  7 03:06:56 h x: a\n\tb"},
	}
	seeds := oddLines
	for name, lines := range good {
		for _, line := range lines {
			if fast, slow := bothWays(t, name, []byte(line)); fast == "" || fast != slow {
				t.Errorf("%s of %s\nis     %s\nwant   %s", name, line, fast, slow)
			}
		}
		seeds = append(seeds, lines...)
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	pieces := []string{" ", "-", `"`, `\`, "[", "]", ":", "\n", "\t", "é", "\xff", "1", "A", "HTTP/1.1", ` [`, `] "`, `" `, "<", ">", "]:"}
	for _, seed := range seeds {
		sameWays(t, []byte(seed))
		for range 60 {
			line := []byte(seed)
			for range 1 + rnd.IntN(3) {
				from := rnd.IntN(len(line) + 1)
				to := from + rnd.IntN(min(4, len(line)-from+1))
				line = append(append(bytes.Clone(line[:from]), pieces[rnd.IntN(len(pieces))]...), line[to-rnd.IntN(to-from+1):]...)
			}
			sameWays(t, line)
		}
	}
}

// TestFastPatternsOnRealLogs leaves hardly a line of real logs to expressions.
func TestFastPatternsOnRealLogs(t *testing.T) {
	for file, name := range map[string]string{"weblogs/apache_logs.gz": "combined", "auth/auth.log.gz": "syslog"} {
		lines, left := realLines(t, file), 0
		for i, line := range lines {
			if i%4 != 0 {
				continue
			}
			fast, slow := bothWays(t, name, []byte(line))
			if fast == "" {
				left++
			} else if fast != slow {
				t.Errorf("%s:%d %q\nis     %s\nwant   %s", file, i+1, line, fast, slow)
			}
		}
		if left > 3 {
			t.Errorf("%s: %d lines are left to the expression", file, left)
		}
	}
}

// FuzzFastPatterns looks for lines that a matcher and its expression split otherwise.
func FuzzFastPatterns(f *testing.F) {
	for _, line := range oddLines {
		f.Add([]byte(line))
	}
	f.Add([]byte(accessLine))
	f.Fuzz(func(t *testing.T, line []byte) { sameWays(t, line) })
}

// TestFastPatternsAreFaster compares the CPU time of both ways in one run. The
// least of several runs counts: what else the machine does only adds to it.
func TestFastPatternsAreFaster(t *testing.T) {
	for name, line := range map[string]string{"combined": accessLine, "syslog": `Mar  7 03:06:56 web1 sshd[1291]: Server listening on 0.0.0.0 port 22 and also on :: port 22`} {
		d, c := newDecoder(t, patternOptions(name), nil)
		slow, cs := newDecoder(t, patternOptions(name), nil)
		slow.(*textDecoder).by.(*pattern).fast = nil
		spend := func(d Decoder, c *Columns) float64 {
			m := &Message{Timestamp: time.Now().UnixMilli(), Value: []byte(line)}
			start := cpuTime(t)
			for range 2000 {
				c.Reset()
				if _, err := d.Append(c, m); err != nil {
					t.Fatal(err)
				}
			}
			return cpuTime(t) - start
		}
		fastest, least := spend(d, c), spend(slow, cs)
		for range 9 {
			fastest, least = min(fastest, spend(d, c)), min(least, spend(slow, cs))
		}
		t.Logf("%s: %.1f times as fast", name, least/fastest)
		if least < 2*fastest {
			t.Errorf("%s: its matcher takes %.0f ns a line, its expression %.0f", name, fastest*5e5, least*5e5)
		}
	}
}
