package loader

import (
	"fmt"
	"slices"
	"strings"

	"sawlog/formats"
)

// extendSchema is the schema of a data set after a load with another one: the
// columns it has, unchanged and in their order, then the new ones. An error
// names the column that cannot be both.
func extendSchema(have, with *formats.Schema) (*formats.Schema, error) {
	if have == nil {
		return with, nil
	}
	fields, err := extendFields("", have.Fields, with.Fields)
	if err != nil {
		return nil, err
	}
	return &formats.Schema{Fields: fields, Inferred: with.Inferred}, nil
}

func extendFields(prefix string, have, with []formats.Field) ([]formats.Field, error) {
	fields := make([]formats.Field, 0, max(len(have), len(with)))
	at := map[string]int{}
	folded := map[string]string{}
	for i, field := range have {
		at[field.Name] = i
		folded[strings.ToLower(field.Name)] = field.Name
		fields = append(fields, field)
	}
	for _, field := range with {
		name := prefix + field.Name
		i, known := at[field.Name]
		if !known {
			if twin, clash := folded[strings.ToLower(field.Name)]; clash {
				return nil, fmt.Errorf("column %s differs from %s only in case", name, prefix+twin)
			}
			folded[strings.ToLower(field.Name)] = field.Name
			at[field.Name] = len(fields)
			fields = append(fields, field)
			continue
		}
		if strings.Join(fields[i].From, "\x00") != strings.Join(field.From, "\x00") {
			return nil, fmt.Errorf("column %s comes from key %q in the data set and from %q here", name, fields[i].From, field.From)
		}
		grown, err := extendType(name, fields[i].Type, field.Type)
		if err != nil {
			return nil, err
		}
		fields[i].Type = grown
	}
	return fields, nil
}

// typeConflict is a column that has another type than the data set's.
type typeConflict struct {
	column     string // dotted names
	have, with *formats.Type
}

func (e *typeConflict) Error() string {
	return fmt.Sprintf("column %s is %s in the data set and %s here", e.column, e.have, e.with)
}

// extendType lets the members of structs grow; all else stays as it is.
func extendType(name string, have, with *formats.Type) (*formats.Type, error) {
	if have == nil || with == nil {
		if have == with {
			return have, nil
		}
		return nil, fmt.Errorf("column %s has no type", name)
	}
	same := have.Kind == with.Kind && have.Unit == with.Unit && have.Local == with.Local &&
		have.Precision == with.Precision && have.Scale == with.Scale
	if !same {
		return nil, &typeConflict{name, have, with}
	}
	switch have.Kind {
	case formats.List, formats.Map:
		elem, err := extendType(name, have.Elem, with.Elem)
		if err != nil {
			return nil, err
		}
		grown := *have
		grown.Elem = elem
		return &grown, nil
	case formats.Struct:
		fields, err := extendFields(name+".", have.Fields, with.Fields)
		if err != nil {
			return nil, err
		}
		grown := *have
		grown.Fields = fields
		return &grown, nil
	default:
		return have, nil
	}
}

// widenSchema is the schema of a data set after its files are written anew under
// another one: the columns it has with the types of the other, where those are
// wider, then the new ones.
func widenSchema(have, with *formats.Schema) (*formats.Schema, error) {
	out := &formats.Schema{Inferred: with.Inferred, Fields: slices.Clone(have.Fields)}
	wider := map[string]*formats.Field{}
	for i := range with.Fields {
		wider[with.Fields[i].Name] = &with.Fields[i]
	}
	for i := range out.Fields {
		f := &out.Fields[i]
		w := wider[f.Name]
		delete(wider, f.Name)
		if w == nil || f.Type.String() == w.Type.String() {
			continue
		}
		if !formats.Widens(f.Type, w.Type) {
			return nil, fmt.Errorf("column %s is %s in the data set, %s is no wider type", f.Name, f.Type, w.Type)
		}
		f.Type = w.Type
	}
	for i := range with.Fields {
		if wider[with.Fields[i].Name] != nil {
			out.Fields = append(out.Fields, with.Fields[i])
		}
	}
	return out, nil
}

// widens wants a schema to have the columns of another in their places, as they
// are or wider, and tells whether any is wider.
func widens(have, next *formats.Schema) (wider bool, err error) {
	if have == nil {
		return false, nil
	}
	if err := keepsColumns(have, next); err != nil {
		return false, err
	}
	for i := range have.Fields {
		from, to := have.Fields[i].Type, next.Fields[i].Type
		if !formats.Widens(from, to) {
			return false, fmt.Errorf("column %s is %s, it was %s", have.Fields[i].Name, to, from)
		}
		wider = wider || from.String() != to.String()
	}
	return wider, nil
}

// keepsColumns wants every column of have in next, in the same order before the
// new ones; types were compared by extendSchema.
func keepsColumns(have, next *formats.Schema) error {
	if have == nil {
		return nil
	}
	if len(next.Fields) < len(have.Fields) {
		return fmt.Errorf("column %s is gone", have.Fields[len(next.Fields)].Name)
	}
	for i, field := range have.Fields {
		if next.Fields[i].Name != field.Name {
			return fmt.Errorf("column %d is %s, it was %s", i, next.Fields[i].Name, field.Name)
		}
	}
	return nil
}
