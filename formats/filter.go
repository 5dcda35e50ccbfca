package formats

import (
	"slices"
	"strings"
)

// filter is the include, exclude and hash lists of Options. They are matched
// against dotted key paths; a pattern that matches a path holds for all below.
type filter struct {
	include, exclude, hash []string
}

func (o *Options) filter() *filter {
	return &filter{include: o.Include, exclude: o.Exclude, hash: o.Hash}
}

// Keeps says that what records have at a dotted key path gets into columns.
func (o *Options) Keeps(path string) bool { return o.filter().keeps(strings.Split(path, ".")) }

// glob matches text against a pattern whose * stands for any run.
func glob(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	for i := len(head); i <= len(text); i++ {
		if glob(rest, text[i:]) {
			return true
		}
	}
	return false
}

// matches says that a pattern matches the path or one above it.
func matches(patterns []string, keys []string) bool {
	for n := 1; n <= len(keys); n++ {
		path := strings.Join(keys[:n], ".")
		if slices.ContainsFunc(patterns, func(p string) bool { return glob(p, path) }) {
			return true
		}
	}
	return false
}

// keeps says that a path may be a column or hold parts of one.
func (f *filter) keeps(keys []string) bool {
	if matches(f.exclude, keys) {
		return false
	}
	if len(f.include) == 0 || matches(f.include, keys) {
		return true
	}
	prefix := strings.Join(keys, ".") + "."
	return slices.ContainsFunc(f.include, func(p string) bool { return strings.HasPrefix(p, prefix) })
}

// hashes says that exactly this path, or the column named so, is hashed.
func (f *filter) hashes(keys []string, name string) bool {
	if len(f.hash) == 0 {
		return false
	}
	path := strings.Join(keys, ".")
	return slices.ContainsFunc(f.hash, func(p string) bool { return p == name || glob(p, path) })
}

// trivial says that every path is kept.
func (f *filter) trivial() bool { return len(f.include) == 0 && len(f.exclude) == 0 }
