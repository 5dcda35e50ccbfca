package loader

import (
	"errors"
	"io/fs"
	"path"

	"sawlog/loader/sink"
)

// A new data set looks this far below its root for another one: about a second
// on a store that is far away.
const (
	aloneDepth = 3
	aloneLists = 100
)

// alone wants no data set above the root of a new one, nor one below it, as far as
// a few looks show: each would take the other's files for strange ones.
func alone(s sink.Sink) error {
	above, err := s.Above(SystemDir)
	if err != nil {
		return readError(err)
	}
	if above != "" {
		e := fail(ExitConflict, "%s lies in the data set of %s", s.Root(), above)
		return e.hint("a data set has a tree of its own: choose a root beside it")
	}
	level := []string{""}
	for depth, lists := 0, 0; depth < aloneDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			if lists++; lists > aloneLists {
				return nil
			}
			entries, err := s.List(dir)
			if errors.Is(err, sink.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue
			}
			if err != nil {
				return readError(err)
			}
			for _, e := range entries {
				switch {
				case !e.Dir || dir == "" && e.Name == SystemDir:
				case e.Name == SystemDir:
					e := fail(ExitConflict, "%s holds the data set of %s/%s", s.Root(), s.Root(), dir)
					return e.hint("a data set has a tree of its own: choose a root beside it")
				default:
					next = append(next, path.Join(dir, e.Name))
				}
			}
		}
		level = next
	}
	return nil
}
