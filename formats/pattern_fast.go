package formats

import "bytes"

// The patterns with a name are matched without their expressions, many times
// faster, where a line has the form lines have. A fast matcher that says yes has
// laid the fields as the expression would have; where it says no the expression
// decides, so that it alone says what a line means (a differential fuzz test
// holds the two together).
//
// It need not try alternatives in turn, for in these patterns each part ends at
// one place only: what is no blank at the next blank, what stands between quotes
// at the first quote that no backslash escapes. Only the words of a user's name
// are tried one by one, since a time in brackets may follow any of them.

// fastPattern lays the fields of a line in the order of the pattern's names.
type fastPattern func(line []byte, fields []textField) bool

// fastPatternOf is the matcher of a pattern with a name.
func fastPatternOf(name string) fastPattern {
	switch name {
	case "common":
		return func(line []byte, fields []textField) bool { return matchAccess(line, fields, false) }
	case "combined":
		return func(line []byte, fields []textField) bool { return matchAccess(line, fields, true) }
	case "syslog":
		return matchSyslog
	}
	return nil
}

// Fields of access logs, in the order of their groups.
const (
	accessHost = iota
	accessIdent
	accessUser
	accessTime
	accessMethod
	accessPath
	accessProtocol
	accessRaw
	accessStatus
	accessBytes
	accessReferer
	accessAgent
)

// maxUserWords is how many words of a user's name are tried.
const maxUserWords = 4

// matchAccess matches the patterns common and combined.
func matchAccess(line []byte, f []textField, combined bool) bool {
	host, rest := blankEnded(line)
	ident, user := blankEnded(rest)
	if host == nil || ident == nil {
		return false
	}
	f[accessHost], f[accessIdent] = textField{text: host}, dashed(ident)
	end := 0
	for range maxUserWords {
		word, rest := blankEnded(user[end:])
		if word == nil {
			return false
		}
		end += len(word)
		if len(rest) > 0 && rest[0] == '[' && accessTail(rest[1:], f, combined) {
			f[accessUser] = dashed(user[:end])
			return true
		}
		end++
	}
	return false
}

// accessTail matches what follows the bracket before the time.
func accessTail(text []byte, f []textField, combined bool) bool {
	end := bytes.IndexByte(text, ']')
	if end <= 0 || !startsWith(text[end:], `] "`) {
		return false
	}
	f[accessTime] = textField{text: text[:end]}
	request, rest := quoteEnded(text[end+3:])
	if request == nil || !startsWith(rest, " ") {
		return false
	}
	requestFields(request, f)
	status, rest := blankEnded(rest[1:])
	if len(status) != 3 || !allDigits(status) {
		if len(status) != 1 || status[0] != '-' {
			return false
		}
	}
	f[accessStatus] = dashed(status)
	size := rest
	if combined {
		if size, rest = blankEnded(rest); size == nil {
			return false
		}
	}
	if !allDigits(size) && string(size) != "-" {
		return false
	}
	f[accessBytes] = dashed(size)
	if !combined {
		return true
	}
	if !startsWith(rest, `"`) {
		return false
	}
	referer, rest := quoteEnded(rest[1:])
	if referer == nil || !startsWith(rest, ` "`) {
		return false
	}
	agent, rest := quoteEnded(rest[2:])
	f[accessReferer], f[accessAgent] = dashed(referer), dashed(agent)
	return agent != nil && len(rest) == 0
}

// requestFields takes a request apart: none, METHOD PATH PROTOCOL, or anything.
func requestFields(text []byte, f []textField) {
	for i := accessMethod; i <= accessRaw; i++ {
		f[i] = textField{null: true}
	}
	if string(text) == "-" {
		return
	}
	method := 0
	for method < len(text) && (text[method] >= 'A' && text[method] <= 'Z' || method > 0 && (text[method] == '_' || text[method] == '-')) {
		method++
	}
	path := method + 1
	if method > 0 && method < len(text) && text[method] == ' ' {
		path += pathLen(text[path:])
	}
	protocol := text[min(path+1, len(text)):]
	if path == method+1 || path >= len(text) || text[path] != ' ' || !startsWith(protocol, "HTTP/") || !isVersion(protocol[5:]) {
		f[accessRaw] = textField{text: text}
		return
	}
	f[accessMethod], f[accessPath], f[accessProtocol] = textField{text: text[:method]}, textField{text: text[method+1 : path]}, textField{text: protocol}
}

// pathLen is how many bytes come before white space that no backslash escapes.
func pathLen(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ' ', '\t', '\n', '\f', '\r':
			return i
		}
	}
	return len(text)
}

func isVersion(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return len(text) > 0
}

// Fields of syslog, in the order of their groups.
const (
	syslogPriority = iota
	syslogTime
	syslogHost
	syslogProgram
	syslogPID
	syslogMessage
)

// matchSyslog matches the pattern syslog.
func matchSyslog(line []byte, f []textField) bool {
	f[syslogPriority] = textField{null: true}
	if len(line) > 0 && line[0] == '<' {
		end := bytes.IndexByte(line[:min(len(line), 5)], '>')
		if end < 2 || !allDigits(line[1:end]) {
			return false
		}
		f[syslogPriority] = textField{text: line[1:end]}
		line = line[end+1:]
	}
	end := syslogTimeLen(line)
	if end == 0 || end >= len(line) || line[end] != ' ' {
		return false
	}
	f[syslogTime] = textField{text: line[:end]}
	host, rest := blankEnded(line[end+1:])
	if host == nil {
		return false
	}
	f[syslogHost] = textField{text: host}
	f[syslogProgram], f[syslogPID] = textField{null: true}, textField{null: true}
	f[syslogMessage] = textField{text: rest}
	for i, c := range rest {
		switch c {
		case '[':
			pid, after, ok := bytes.Cut(rest[i+1:], []byte("]:"))
			if i > 0 && ok && len(pid) > 0 && allDigits(pid) {
				f[syslogProgram], f[syslogPID] = textField{text: rest[:i]}, textField{text: pid}
				f[syslogMessage] = textField{text: withoutBlank(after)}
			}
			return true
		case ':':
			if i > 0 {
				f[syslogProgram] = textField{text: rest[:i]}
				f[syslogMessage] = textField{text: withoutBlank(rest[i+1:])}
			}
			return true
		case ' ', '\t', '\n', '\f', '\r':
			return true
		}
	}
	return true
}

// syslogTimeLen is the length of the time a line begins with; 0 = it has none.
func syslogTimeLen(line []byte) int {
	const month, date = "Aaa _0 00:00:00", "0000-00-00T"
	if like(line, month) {
		return len(month)
	}
	if !like(line, date) {
		return 0
	}
	word, _ := blankEnded(line)
	if len(word) == len(date) {
		return 0
	}
	return len(word)
}

// like compares the start of text with a form: A and a are letters of that case, 0
// is a digit, _ a digit or a blank, and all else itself.
func like(text []byte, form string) bool {
	if len(text) < len(form) {
		return false
	}
	for i := range len(form) {
		c, ok := text[i], false
		switch form[i] {
		case 'A':
			ok = c >= 'A' && c <= 'Z'
		case 'a':
			ok = c >= 'a' && c <= 'z'
		case '0':
			ok = c >= '0' && c <= '9'
		case '_':
			ok = c == ' ' || c >= '0' && c <= '9'
		default:
			ok = c == form[i]
		}
		if !ok {
			return false
		}
	}
	return true
}

// blankEnded is what comes before a blank, without other white space, and what
// comes after it; nil = there is nothing of that kind.
func blankEnded(text []byte) (word, rest []byte) {
	for i, c := range text {
		switch c {
		case ' ':
			if i == 0 {
				return nil, nil
			}
			return text[:i], text[i+1:]
		case '\t', '\n', '\f', '\r':
			return nil, nil
		}
	}
	return nil, nil
}

// quoteEnded is what comes before a quote that no backslash escapes, and what
// comes after it; nil = there is no such quote, or a backslash escapes a line feed.
func quoteEnded(text []byte) (inner, rest []byte) {
	if end := bytes.IndexByte(text, '"'); end >= 0 && bytes.IndexByte(text[:end], '\\') < 0 {
		return text[:end:end], text[end+1:]
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return text[:i:i], text[i+1:]
		case '\\':
			if i++; i == len(text) || text[i] == '\n' {
				return nil, nil
			}
		}
	}
	return nil, nil
}

// dashed is a field whose lone dash means that there is nothing.
func dashed(text []byte) textField {
	if len(text) == 1 && text[0] == '-' {
		return textField{null: true}
	}
	return textField{text: text}
}

func withoutBlank(text []byte) []byte {
	if len(text) > 0 && text[0] == ' ' {
		return text[1:]
	}
	return text
}

func allDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

func startsWith(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix
}
