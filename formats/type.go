package formats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// scalars are the type names without parameters; their order is of no meaning.
var scalars = [...]struct {
	name string
	t    Type
}{
	{"bool", Type{Kind: Bool}},
	{"int32", Type{Kind: Int32}},
	{"int64", Type{Kind: Int64}},
	{"float", Type{Kind: Float}},
	{"double", Type{Kind: Double}},
	{"string", Type{Kind: String}},
	{"bytes", Type{Kind: Bytes}},
	{"date", Type{Kind: Date}},
	{"uuid", Type{Kind: UUID}},
	{"json", Type{Kind: JSON}},
	{"timestamp_ms", Type{Kind: Timestamp, Unit: Millis}},
	{"timestamp_us", Type{Kind: Timestamp, Unit: Micros}},
	{"timestamp_ns", Type{Kind: Timestamp, Unit: Nanos}},
	{"timestamp_ms_local", Type{Kind: Timestamp, Unit: Millis, Local: true}},
	{"timestamp_us_local", Type{Kind: Timestamp, Unit: Micros, Local: true}},
	{"timestamp_ns_local", Type{Kind: Timestamp, Unit: Nanos, Local: true}},
}

// typeParser reads the grammar
//
//	type   = scalar | "decimal(" p "," s ")" | "list<" type ">" | "map<" type ">"
//	       | "struct<" member { "," member } ">"
//	member = name ":" type        name = bare word or JSON string
type typeParser struct {
	text string
	at   int
}

// ParseType reads the text form of a type.
func ParseType(text string) (*Type, error) {
	p := typeParser{text: text}
	t, err := p.parse(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(text) {
		return nil, p.errorf("unexpected %q", text[p.at:])
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("type %q: %w", text, err)
	}
	return t, nil
}

func (p *typeParser) errorf(format string, args ...any) error {
	return fmt.Errorf("type %q: %s at byte %d", p.text, fmt.Sprintf(format, args...), p.at)
}

func (p *typeParser) space() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

func (p *typeParser) eat(c byte) error {
	if p.space(); p.at >= len(p.text) || p.text[p.at] != c {
		return p.errorf("expected %q", c)
	}
	p.at++
	return nil
}

func (p *typeParser) word() string {
	p.space()
	start := p.at
	for p.at < len(p.text) && !strings.ContainsRune("<>(),:\" ", rune(p.text[p.at])) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *typeParser) parse(depth int) (*Type, error) {
	if depth > MaxDepth {
		return nil, p.errorf("deeper than %d", MaxDepth)
	}
	start := p.at
	switch word := p.word(); word {
	case "decimal":
		return p.decimal()
	case "list", "map":
		if err := p.eat('<'); err != nil {
			return nil, err
		}
		elem, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		kind := List
		if word == "map" {
			kind = Map
		}
		return &Type{Kind: kind, Elem: elem}, p.eat('>')
	case "struct":
		return p.members(depth)
	default:
		for i := range scalars {
			if scalars[i].name == word {
				t := scalars[i].t
				return &t, nil
			}
		}
		p.at = start
		return nil, p.errorf("unknown type %q", word)
	}
}

func (p *typeParser) decimal() (*Type, error) {
	t := &Type{Kind: Decimal}
	for i, into := range []*int32{&t.Precision, &t.Scale} {
		if err := p.eat("(,"[i]); err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(p.word(), 10, 32)
		if err != nil {
			return nil, p.errorf("expected a number")
		}
		*into = int32(n)
	}
	return t, p.eat(')')
}

func (p *typeParser) members(depth int) (*Type, error) {
	t := &Type{Kind: Struct}
	for sep := byte('<'); ; sep = ',' {
		if err := p.eat(sep); err != nil {
			return nil, err
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if err := p.eat(':'); err != nil {
			return nil, err
		}
		member, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		t.Fields = append(t.Fields, Field{Name: name, Type: member})
		if p.space(); p.at < len(p.text) && p.text[p.at] == '>' {
			p.at++
			return t, nil
		}
	}
}

func (p *typeParser) name() (string, error) {
	if p.space(); p.at < len(p.text) && p.text[p.at] == '"' {
		quoted, err := strconv.QuotedPrefix(p.text[p.at:])
		if err != nil {
			return "", p.errorf("bad quoted name")
		}
		var name string
		if err := json.Unmarshal([]byte(quoted), &name); err != nil {
			return "", p.errorf("bad quoted name")
		}
		p.at += len(quoted)
		return name, nil
	}
	if name := p.word(); name != "" {
		return name, nil
	}
	return "", p.errorf("expected a name")
}

// String is the text form ParseType reads; key paths of members are not in it.
func (t *Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case List:
		return "list<" + t.Elem.String() + ">"
	case Map:
		return "map<" + t.Elem.String() + ">"
	case Struct:
		var b strings.Builder
		for i := range t.Fields {
			b.WriteByte("<,"[min(i, 1)])
			name := t.Fields[i].Name
			if name == "" || strings.ContainsAny(name, "<>(),:\" ") || strconv.Quote(name) != `"`+name+`"` {
				quoted, _ := json.Marshal(name) // a string always marshals
				name = string(quoted)
			}
			b.WriteString(name + ":" + t.Fields[i].Type.String())
		}
		return "struct" + b.String() + ">"
	default:
		for i := range scalars {
			if s := scalars[i].t; s.Kind == t.Kind && s.Unit == t.Unit && s.Local == t.Local {
				return scalars[i].name
			}
		}
		return fmt.Sprintf("kind(%d)", t.Kind)
	}
}

// MarshalJSON gives a string for a scalar and {"list":T}, {"map":T} or
// {"struct":[Field]} otherwise.
func (t *Type) MarshalJSON() ([]byte, error) {
	switch t.Kind {
	case List:
		return json.Marshal(map[string]*Type{"list": t.Elem})
	case Map:
		return json.Marshal(map[string]*Type{"map": t.Elem})
	case Struct:
		return json.Marshal(map[string][]Field{"struct": t.Fields})
	default:
		return json.Marshal(t.String())
	}
}

// UnmarshalJSON reads what MarshalJSON gives, and any type in its text form.
func (t *Type) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		parsed, err := ParseType(text)
		if err != nil {
			return err
		}
		*t = *parsed
		return nil
	}
	var nested struct {
		List   *Type    `json:"list"`
		Map    *Type    `json:"map"`
		Struct *[]Field `json:"struct"`
	}
	if err := json.Unmarshal(b, &nested); err != nil {
		return fmt.Errorf("type: %w", err)
	}
	switch {
	case nested.List != nil && nested.Map == nil && nested.Struct == nil:
		*t = Type{Kind: List, Elem: nested.List}
	case nested.Map != nil && nested.List == nil && nested.Struct == nil:
		*t = Type{Kind: Map, Elem: nested.Map}
	case nested.Struct != nil && nested.List == nil && nested.Map == nil:
		*t = Type{Kind: Struct, Fields: *nested.Struct}
	default:
		return fmt.Errorf("type: %.60q is none of a string, {list}, {map} and {struct}", b)
	}
	return nil
}

// Equal says that two types are the same, names and key paths included.
func (t *Type) Equal(o *Type) bool {
	if t == nil || o == nil {
		return t == o
	}
	if t.Kind != o.Kind || t.Unit != o.Unit || t.Local != o.Local || t.Precision != o.Precision || t.Scale != o.Scale ||
		len(t.Fields) != len(o.Fields) || !t.Elem.Equal(o.Elem) {
		return false
	}
	for i := range t.Fields {
		a, b := &t.Fields[i], &o.Fields[i]
		if a.Name != b.Name || !equalPath(a.Keys(), b.Keys()) || !a.Type.Equal(b.Type) {
			return false
		}
	}
	return true
}

func equalPath(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
