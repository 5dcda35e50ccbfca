package formats

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a schema; what inference finds beyond them becomes JSON text.
const (
	MaxColumns = 2000 // leaves
	MaxDepth   = 32   // nesting of one column
)

// Validate refuses a schema no file could hold.
func (s *Schema) Validate() error {
	if len(s.Fields) == 0 {
		return fmt.Errorf("schema has no columns")
	}
	data := false
	seen := make(map[string]bool, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		if err := checkName(f.Name, seen); err != nil {
			return err
		}
		if f.Type == nil {
			return fmt.Errorf("column %q has no type", f.Name)
		}
		if f.Metadata() {
			if data {
				return fmt.Errorf("metadata column %q stands after other columns", f.Name)
			}
		} else {
			data = true
		}
		if err := f.Type.check(); err != nil {
			return fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	if n := len(s.Leaves()); n > MaxColumns {
		return fmt.Errorf("schema has %d columns, more than %d", n, MaxColumns)
	}
	return nil
}

func checkName(name string, seen map[string]bool) error {
	switch fold := strings.ToLower(name); {
	case name == "":
		return fmt.Errorf("a column has no name")
	case !utf8.ValidString(name):
		return fmt.Errorf("column %q is not UTF-8", name)
	case seen[fold]:
		return fmt.Errorf("column %q stands twice (letter case does not tell columns apart)", name)
	default:
		seen[fold] = true
		return nil
	}
}

func (t *Type) check() error { return t.checkAt(0) }

func (t *Type) checkAt(depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("deeper than %d", MaxDepth)
	}
	switch t.Kind {
	case Bool, Int32, Int64, Float, Double, String, Bytes, Date, UUID, JSON:
	case Timestamp:
		if t.Unit > Nanos {
			return fmt.Errorf("unknown time unit %d", t.Unit)
		}
	case Decimal:
		if t.Precision < 1 || t.Precision > 38 || t.Scale < 0 || t.Scale > t.Precision {
			return fmt.Errorf("decimal(%d,%d) is outside 1..38 digits", t.Precision, t.Scale)
		}
	case List, Map:
		if t.Elem == nil {
			return fmt.Errorf("a list or map has no element type")
		}
		return t.Elem.checkAt(depth + 1)
	case Struct:
		if len(t.Fields) == 0 {
			return fmt.Errorf("a struct has no members")
		}
		seen := make(map[string]bool, len(t.Fields))
		for i := range t.Fields {
			f := &t.Fields[i]
			if err := checkName(f.Name, seen); err != nil {
				return fmt.Errorf("struct: %w", err)
			}
			if len(f.From) > 1 {
				return fmt.Errorf("struct member %q: from takes one key", f.Name)
			}
			if f.Type == nil {
				return fmt.Errorf("struct member %q has no type", f.Name)
			}
			if err := f.Type.checkAt(depth + 1); err != nil {
				return fmt.Errorf("member %q: %w", f.Name, err)
			}
		}
	default:
		return fmt.Errorf("unknown kind %d", t.Kind)
	}
	return nil
}
