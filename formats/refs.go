package formats

import (
	"maps"
	"slices"
	"strings"
)

// Ref is a field of the records that a job names.
type Ref struct {
	Key  string // of the job file, such as time.field
	Path string // dotted; in columns.include, exclude and hash * stands for any run
}

// Refs lists the fields that the options name. What columns.hash and rename name
// may be the new name of a column instead.
func (o *Options) Refs() []Ref {
	var refs []Ref
	add := func(key string, paths []string) {
		for _, path := range paths {
			refs = append(refs, Ref{key, path})
		}
	}
	if !o.Time.fromRecord() {
		add("time.field", []string{strings.Join(o.Time.Field, ".")})
	}
	add("columns.include", o.Include)
	add("columns.exclude", o.Exclude)
	add("columns.rename", slices.Sorted(maps.Keys(o.Rename)))
	add("columns.hash", o.Hash)
	return refs
}

// In tells whether the field, or one that the pattern matches, is among paths.
func (r Ref) In(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return glob(r.Path, path) })
}

// Fields lists the dotted paths of what records can have, whatever columns leave
// out; none where only the records tell.
func (o *Options) Fields() ([]string, error) {
	all := *o
	all.Include, all.Exclude, all.Hash = nil, nil, nil
	fields, err := all.fixedFields()
	return pathsOf(nil, fields, ""), err
}

// Paths lists the dotted key paths of the columns and of what they hold.
func (s *Schema) Paths() []string { return pathsOf(nil, s.Fields, "") }

func pathsOf(paths []string, fields []Field, above string) []string {
	for i := range fields {
		f := &fields[i]
		if above == "" && f.Metadata() {
			continue
		}
		path := above + strings.Join(f.Keys(), ".")
		t := f.Type
		for t.Elem != nil {
			t = t.Elem
		}
		paths = pathsOf(append(paths, path), t.Fields, path+".")
	}
	return paths
}

// Paths lists the dotted key paths that were met.
func (r *Report) Paths() []string { return r.Root.paths(nil, "") }

func (n *Seen) paths(paths []string, above string) []string {
	if n == nil {
		return paths
	}
	paths = n.Elem.paths(paths, above)
	for _, key := range slices.Sorted(maps.Keys(n.Fields)) {
		paths = n.Fields[key].paths(append(paths, above+key), above+key+".")
	}
	return paths
}

// Nearest is the known word closest to a misspelt one; empty when none is near
// enough to be worth saying.
func Nearest(word string, known []string) string {
	best, limit := "", max(2, len(word)/3)+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < limit {
			best, limit = candidate, d
		}
	}
	return best
}

// distance is the number of letters to insert, drop, replace or swap with
// their neighbour.
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
