package main

import (
	"errors"
	"sync"

	"sawlog/jobs"
	"sawlog/loader"
	"sawlog/loader/sink"
)

// views remembers what ledgers said of their hours. One that has not gone on
// says the same again and is not read: a page looks at hundreds.
type views struct {
	mu sync.Mutex
	at map[string]seen // by root
}

// seen is a view and the ledger record it was read as of.
type seen struct {
	view *jobs.View
	head sink.Entry
}

// of gives the view of the ledger in a store. Nobody changes it.
func (v *views) of(store sink.Sink, read func() (*jobs.View, error)) (*jobs.View, error) {
	v.mu.Lock()
	last := v.at[store.Root()]
	v.mu.Unlock()
	if last.view != nil && last.stands(store) {
		return last.view, nil
	}
	view, err := read()
	if err != nil || view.Head < 0 || view.BucketErr != nil {
		return view, err
	}
	head, err := store.Stat(loader.RecordPath(view.Head))
	if err != nil {
		return view, nil // it goes away just now: the next look will tell
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at == nil {
		v.at = map[string]seen{}
	}
	v.at[store.Root()] = seen{view, head}
	return view, nil
}

// stands tells whether the record is the last one still, and the same: a root
// may have been emptied and filled again.
func (s seen) stands(store sink.Sink) bool {
	head, err := store.Stat(loader.RecordPath(s.view.Head))
	if err != nil || head.Size != s.head.Size || !head.ModTime.Equal(s.head.ModTime) {
		return false
	}
	_, err = store.Stat(loader.RecordPath(s.view.Head + 1))
	return errors.Is(err, sink.ErrNotExist)
}
