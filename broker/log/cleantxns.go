package log

import (
	"errors"
	"fmt"
	"slices"

	"sawlog/broker/record"
	"sawlog/offsets"
)

// errNoMarker tells that data of a transaction has no end in the log, though
// none is open: compaction cannot know whether it counts.
var errNoMarker = errors.New("a transaction has data but no marker")

// abortedFrom finds the transactions aborted from segment i of a view on, by the
// markers in the log; −1 stands for a segment that is no longer there. It is
// asked only of logs that hold transactions. Below bound no transaction is open.
func (l *Log) abortedFrom(v *view, i int, bound offsets.Offset) ([]aborted, error) {
	if i < 0 {
		return nil, errGone
	}
	var out []aborted
	open := map[int64]offsets.Offset{}
	for ; i < len(v.segments); i++ {
		s, limit := v.segments[i], v.limit(i)
		err := s.walk(s.base, limit, func(b header) error {
			id, first, last := b.ProducerID(), b.BaseOffset(), b.LastOffset()
			if !b.IsControl() {
				if _, ok := open[id]; b.IsTransactional() && !ok {
					open[id] = first
				}
				return nil
			}
			commit, err := s.verdict(b.pos, limit)
			if errors.Is(err, errNoVerdict) {
				return nil
			}
			if at, ok := open[id]; ok && err == nil && !commit {
				out = append(out, aborted{id, at, last})
			}
			delete(open, id)
			return err
		})
		if err != nil {
			return nil, l.discover(err, s, limit, noOffset, v.endOf(i))
		}
	}
	for id, first := range open {
		if first < bound {
			return nil, fmt.Errorf("%w: producer %d, offset %d", errNoMarker, id, first)
		}
	}
	slices.SortFunc(out, func(a, b aborted) int { return int(a.first - b.first) })
	return out, nil
}

// errNoVerdict tells that a control batch ends no transaction.
var errNoVerdict = errors.New("no transaction marker")

// verdict reads the marker at pos.
func (s *segment) verdict(pos, limit int64) (commit bool, err error) {
	err = errNoVerdict // also of a header without records
	cerr := s.records(pos, limit, func(r *record.Record) bool {
		if commit, err = record.ParseControl(r.Key); err != nil {
			err = errNoVerdict
		}
		return false
	})
	if cerr != nil {
		return false, cerr
	}
	return commit, err
}
