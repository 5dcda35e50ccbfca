package loader

import (
	"context"
)

// DropAsk says which files are taken back.
type DropAsk struct {
	Hours  *HourSpan
	Of     string // a run id, plan id or record number: what it brought, of all hours quarantine too
	DryRun bool
}

// Drop takes files back (`out drop`): the record retires them, no reader sees
// them again, and their bytes wait under the retired folder for a week. The
// offsets stay loaded, so that no load brings the rows back by itself; a
// supersede does. The files come back beside the record, which is nil in a dry
// run.
func (l *Ledger) Drop(ctx context.Context, run string, ask DropAsk, o CommitOptions) (*Record, []*Visible, error) {
	if err := l.checkOwner(); err != nil {
		return nil, nil, err
	}
	if ask.DryRun {
		if _, err := l.refresh(ctx); err != nil {
			return nil, nil, err
		}
		files, err := l.dropped(ask)
		return nil, files, err
	}
	var files []*Visible
	settle := func(ctx context.Context) error {
		taken := map[string]bool{}
		files, _ := l.dropped(ask) // none is an error of the build
		for _, v := range files {
			taken[v.Path] = true
		}
		return l.settleBut(ctx, taken)
	}
	rec, err := l.append(ctx, settle, func() (rec, instead *Record, err error) {
		if files, err = l.dropped(ask); err != nil {
			return nil, nil, err
		}
		rec = &Record{Kind: Drop, Run: run, Base: l.fold.Head, By: o.By, Why: o.Why}
		for _, v := range files {
			rec.Retires = append(rec.Retires, v.Path)
		}
		return rec, nil, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return rec, files, l.settle(ctx)
}

// dropped lists the visible files an ask names; none is an error.
func (l *Ledger) dropped(ask DropAsk) ([]*Visible, error) {
	of := int64(-1)
	if ask.Of != "" {
		ref, err := l.fold.Lookup(ask.Of)
		if err != nil {
			return nil, err
		}
		of = ref.Number
	}
	files := l.fold.visible(func(v *Visible) bool {
		switch {
		case of >= 0 && v.Number != of:
			return false
		case v.Hour == nil: // quarantine goes with its run
			return of >= 0 && ask.Hours == nil
		default:
			return ask.Hours.holds(*v.Hour)
		}
	})
	if len(files) == 0 {
		e := fail(ExitNotFound, "no visible file of data set %s is meant", l.fold.Dataset)
		return nil, e.hint("`sawlog out count` lists the hours that hold files")
	}
	return files, nil
}
