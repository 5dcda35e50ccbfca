package loader

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sawlog/formats"
)

// A job names fields of its records: for the event time, for folders, to leave
// out, rename or hash columns. A name that no record has is a slip as a rule, and
// nothing would tell: the folder is that of null, the column isn't hashed. Where
// the fields are known before any record, whoever brings the spec is refused; a
// job that was let in by an earlier release goes on, and its previews warn, as
// they do where only records tell.

// looksMost is how many records at most a preview asks for their fields.
const looksMost = 10_000

// strays tells of the fields that are named, and that records don't have as far as
// is known before any of them. A pattern may match nothing.
func strays(o *formats.Options, declared *formats.Schema) ([]string, error) {
	known, err := o.Fields()
	if err != nil || known == nil {
		return nil, err
	}
	var out []string
	for _, ref := range o.Refs() {
		if strings.Contains(ref.Path, "*") || ref.In(known) || ref.In(columnNames(o, declared)) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: the records have no %q%s", ref.Key, ref.Path, orNear(ref.Path, known)))
	}
	return out, nil
}

// CheckNames refuses names of fields that no record can have. Validate doesn't:
// it is for specs that are carried out already, too.
func (r *Spec) CheckNames() error {
	if r.Decode.Unresolved() { // the planner asks the registry first
		return nil
	}
	found, err := strays(&r.Decode, r.Schema)
	if err != nil {
		return &Error{Code: ExitUsage, Err: err}
	}
	var wrong []error
	for _, stray := range found {
		wrong = append(wrong, errors.New(stray))
	}
	if len(wrong) == 0 {
		return nil
	}
	return &Error{Code: ExitUsage, Err: errors.Join(wrong...)}
}

// columnNames are the names that columns have besides the paths they come from.
func columnNames(o *formats.Options, s *formats.Schema) []string {
	var names []string
	for _, to := range o.Rename {
		names = append(names, to)
	}
	if s != nil {
		names = append(names, s.Paths()...)
		for i := range s.Fields {
			names = append(names, s.Fields[i].Name)
		}
	}
	return names
}

func orNear(path string, known []string) string {
	if near := formats.Nearest(path, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// meet begins to look at the fields of records, where only those tell.
func (l *looker) meet() {
	if l.plan.Decode.Value == "json" {
		o := l.plan.Decode
		o.Include, o.Exclude = nil, nil
		l.met = formats.NewInference(nil, o)
	}
}

// look notes the fields of a record.
func (l *looker) look(m *formats.Message) {
	if l.met == nil || l.looked == looksMost {
		return
	}
	if l.met.Observe(m) == nil { // one that can't be read has none
		l.looked++
	}
}

// warnings tells of fields that the job names and none of the records looked at
// has, nor the data set; or, where schemas or patterns say which there are, that
// those have not. Of declared columns, which may be rare, it tells only where records have a
// field of nearly that name which nobody asks for.
func (l *looker) warnings(declared, have *formats.Schema) ([]string, error) {
	o := &l.plan.Decode
	if l.met == nil {
		return strays(o, declared)
	}
	if l.looked == 0 {
		return nil, nil
	}
	met := l.met.Report().Paths()
	refs := o.Refs()
	for i := range l.plan.Bucket.Fields {
		refs = append(refs, formats.Ref{Key: "partition_by.fields", Path: l.plan.Bucket.Fields[i].from()})
	}
	var asked []string
	if declared != nil {
		asked = declared.Paths()
		for _, path := range asked {
			near := formats.Nearest(path, met)
			if near != "" && !slices.Contains(met, path) && !slices.Contains(asked, near) {
				refs = append(refs, formats.Ref{Key: "schema", Path: path})
			}
		}
	}
	known := slices.Concat(met, columnNames(o, have), columnNames(o, declared))
	var out []string
	for _, ref := range refs {
		if ref.Key == "schema" || !ref.In(known) {
			out = append(out, fmt.Sprintf("%s: none of the %d records looked at has %q%s", ref.Key, l.looked, ref.Path, orNear(ref.Path, met)))
		}
	}
	return out, nil
}
