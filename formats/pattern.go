package formats

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

func newPatternDecoder(f *rowFrame) (Decoder, error) {
	p, err := compilePattern(f.o.Pattern)
	if err != nil {
		return nil, err
	}
	return newTextDecoder(f, p, p.names, "decode.pattern")
}

// split finds the groups in a value, which but for one line end must match as a
// whole.
func (p *pattern) split(d *textDecoder, value []byte) error {
	line := withoutLineEnd(value)
	if p.fast != nil && p.fast(line, d.fields) || p.match(line, d.fields) {
		return nil
	}
	return &BadRecord{BadPattern, fmt.Sprintf("%.80q does not match decode.pattern", line)}
}

// pattern is a regular expression whose named groups are the fields of a line. A
// group that takes no part in the match is null. It is of RE2's kind, so that
// matching takes time linear in the text, whatever the text is.
type pattern struct {
	re     *regexp.Regexp
	fast   fastPattern // nil = there is none
	names  []string    // of its fields, in the order of their groups
	groups []int
}

// match lays the groups of a line that matches the expression.
func (p *pattern) match(line []byte, fields []textField) bool {
	at := p.re.FindSubmatchIndex(line) // the one allocation of a record
	if at == nil {
		return false
	}
	for i, group := range p.groups {
		if from, to := at[2*group], at[2*group+1]; from >= 0 {
			fields[i] = textField{text: line[from:to]}
		} else {
			fields[i] = textField{null: true}
		}
	}
	return true
}

func compilePattern(text string) (*pattern, error) {
	if _, err := regexp.Compile(text); err != nil { // by itself: parentheses may not reach out
		return nil, fmt.Errorf("decode.pattern: %w", err)
	}
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("decode.pattern: %w", err)
	}
	p := &pattern{re: re, fast: fastOf(text)}
	for group, name := range re.SubexpNames() {
		if name == "" {
			continue
		}
		if slices.Contains(p.names, name) {
			return nil, fmt.Errorf("decode.pattern: two groups have the name %q", name)
		}
		p.names, p.groups = append(p.names, name), append(p.groups, group)
	}
	if len(p.names) == 0 {
		return nil, fmt.Errorf(`decode.pattern: %q has no groups with names, such as (?P<user>\S+), which make the columns; patterns with a name are %s`,
			text, strings.Join(PatternNames(), ", "))
	}
	return p, nil
}

// What stands between quotes in access logs, where a backslash escapes.
const quotedText = `(?:[^"\\]|\\.)*`

// commonLog is the Common Log Format, "%h %l %u %t \"%r\" %>s %b" in Apache's
// terms. A request that is not METHOD PATH PROTOCOL is kept as rawrequest.
const commonLog = `(?P<host>\S+) (?:-|(?P<ident>\S+)) (?:-|(?P<user>\S+(?: \S+)*?)) \[(?P<time>[^\]]+)\] ` +
	`"(?:-|(?P<method>[A-Z][A-Z_-]*) (?P<path>(?:[^\s"\\]|\\.)+) (?P<protocol>HTTP/[0-9.]+)|(?P<rawrequest>` + quotedText + `))" ` +
	`(?:-|(?P<status>\d{3})) (?:-|(?P<bytes>\d+))`

// namedPatterns have a name in job files. A lone - is null, as servers mean it;
// escapes stay as they were written.
var namedPatterns = [...]struct{ name, text string }{
	{"common", commonLog},
	// The Combined Log Format, also the default of nginx.
	{"combined", commonLog + ` "(?:-|(?P<referer>` + quotedText + `))" "(?:-|(?P<agent>` + quotedText + `))"`},
	// Lines as syslog daemons write them to files (RFC 3164), the time with its
	// month or by RFC 3339; a line without a program is all message.
	{"syslog", `(?:<(?P<priority>\d{1,3})>)?(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) (?P<host>\S+) ` +
		`(?:(?P<program>[^\s:\[]+)(?:\[(?P<pid>\d+)\])?: ?)?(?P<message>(?s:.*))`},
}

// fastOf is the matcher of the expression of a pattern with a name.
func fastOf(text string) fastPattern {
	for i := range namedPatterns {
		if namedPatterns[i].text == text {
			return fastPatternOf(namedPatterns[i].name)
		}
	}
	return nil
}

// PatternNames are the patterns that have a name.
func PatternNames() []string {
	names := make([]string, len(namedPatterns))
	for i := range namedPatterns {
		names[i] = namedPatterns[i].name
	}
	return names
}

// PatternText is the expression of a pattern with a name, and any other text as
// it is. Plans hold the expression, so that a name may mean another one later.
func PatternText(pattern string) string {
	for i := range namedPatterns {
		if namedPatterns[i].name == pattern {
			return namedPatterns[i].text
		}
	}
	return pattern
}
