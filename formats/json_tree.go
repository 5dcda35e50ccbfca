package formats

import "fmt"

// jsonNode is a value of the full decoder's tree.
type jsonNode struct {
	kind byte     // 'n' null, 't' true, 'f' false, '#' number, '"' string, '[' and '{'
	raw  []byte   // as the record has it
	text []byte   // of a string, unescaped
	bad  bool     // the string had bytes or surrogates that became U+FFFD
	keys [][]byte // of an object, unescaped; each once, the last one won
	kids []*jsonNode
	// dropped are the keys of members that a later one replaced.
	dropped [][]byte
}

// jsonParser builds trees; it knows nothing of schemas.
type jsonParser struct {
	b  []byte
	at int
}

// parseJSON reads one record: a single object and nothing else.
func parseJSON(b []byte) (*jsonNode, error) {
	p := jsonParser{b: b}
	p.at = space(b, 0)
	if p.at == len(b) {
		return nil, &BadRecord{BadSyntax, "empty value"}
	}
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.at = space(b, p.at); p.at != len(b) {
		return nil, p.fail("unexpected data after the value")
	}
	if n.kind != '{' {
		return nil, &BadRecord{BadSyntax, "the value is " + n.describe() + ", not an object"}
	}
	return n, nil
}

// describe names the kind of a value.
func (n *jsonNode) describe() string {
	switch n.kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '#':
		return "a number"
	case '"':
		return "a string"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}

// seen is the type that a value would have by itself.
func (n *jsonNode) seen() string {
	switch n.kind {
	case 't', 'f':
		return "bool"
	case '"':
		return "string"
	case '[':
		return "list"
	case '{':
		return "struct"
	case '#':
		if !integral(n.raw) || isMinusZero(n.raw) {
			return "double"
		}
		if _, ok := parseInt(n.raw); ok {
			return "int64"
		}
		return "an integer beyond int64"
	}
	return "null"
}

func (p *jsonParser) fail(what string) error {
	return &BadRecord{BadSyntax, fmt.Sprintf("byte %d: %s", p.at, what)}
}

func (p *jsonParser) value(depth int) (*jsonNode, error) {
	if depth > maxNesting {
		return nil, &BadRecord{BadTooDeep, fmt.Sprintf("byte %d: deeper than %d", p.at, maxNesting)}
	}
	if p.at >= len(p.b) {
		return nil, p.fail("unexpected end")
	}
	start := p.at
	n := &jsonNode{kind: p.b[p.at]}
	var err error
	switch n.kind {
	case '{':
		err = p.object(n, depth)
	case '[':
		err = p.array(n, depth)
	case '"':
		n.text, n.bad, err = p.str()
	case 't', 'f', 'n':
		end := skipScalar(p.b, p.at)
		if end < 0 {
			return nil, p.fail("bad word")
		}
		p.at = end
	default:
		n.kind = '#'
		end := scanNumber(p.b, p.at)
		if end < 0 {
			return nil, p.fail(fmt.Sprintf("no value starts with 0x%02x", p.b[p.at]))
		}
		p.at = end
	}
	n.raw = p.b[start:p.at]
	return n, err
}

// str reads a string byte by byte; it shares no scanning with the fast path.
func (p *jsonParser) str() (text []byte, bad bool, err error) {
	p.at++
	for i := p.at; i < len(p.b); i++ {
		switch c := p.b[i]; {
		case c == '\\':
			i++
		case c < ' ':
			p.at = i
			return nil, false, p.fail("control character in a string")
		case c == '"':
			text, bad, ok := appendUnescaped([]byte{}, p.b[p.at:i])
			if !ok {
				return nil, false, p.fail("bad escape in a string")
			}
			p.at = i + 1
			return text, bad, nil
		}
	}
	p.at = len(p.b)
	return nil, false, p.fail("string without end")
}

func (p *jsonParser) array(n *jsonNode, depth int) error {
	p.at = space(p.b, p.at+1)
	if p.at < len(p.b) && p.b[p.at] == ']' {
		p.at++
		return nil
	}
	for {
		kid, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.kids = append(n.kids, kid)
		if done, err := p.next(']'); done || err != nil {
			return err
		}
	}
}

func (p *jsonParser) object(n *jsonNode, depth int) error {
	p.at = space(p.b, p.at+1)
	if p.at < len(p.b) && p.b[p.at] == '}' {
		p.at++
		return nil
	}
	for {
		if p.at >= len(p.b) || p.b[p.at] != '"' {
			return p.fail("expected a key")
		}
		key, _, err := p.str()
		if err != nil {
			return err
		}
		if p.at = space(p.b, p.at); p.at >= len(p.b) || p.b[p.at] != ':' {
			return p.fail("expected a colon")
		}
		p.at = space(p.b, p.at+1)
		kid, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.keys = append(n.keys, key)
		n.kids = append(n.kids, kid)
		if done, err := p.next('}'); done || err != nil {
			n.lastWins()
			return err
		}
	}
}

// next passes a comma, or the end of a container.
func (p *jsonParser) next(end byte) (done bool, err error) {
	if p.at = space(p.b, p.at); p.at >= len(p.b) {
		return false, p.fail("unexpected end")
	}
	switch p.b[p.at] {
	case end:
		p.at++
		return true, nil
	case ',':
		p.at = space(p.b, p.at+1)
		return false, nil
	default:
		return false, p.fail("expected a comma or " + string(end))
	}
}

// lastWins drops members whose key comes again and remembers their keys.
func (n *jsonNode) lastWins() {
	last := make(map[string]int, len(n.keys))
	for i, k := range n.keys {
		last[string(k)] = i
	}
	if len(last) == len(n.keys) {
		return
	}
	kept := 0
	for i, k := range n.keys {
		if last[string(k)] == i {
			n.keys[kept], n.kids[kept] = k, n.kids[i]
			kept++
		} else {
			n.dropped = append(n.dropped, k)
		}
	}
	n.keys, n.kids = n.keys[:kept], n.kids[:kept]
}
