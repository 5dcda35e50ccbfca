package hdfs

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// Open opens a file for reading.
func (s *Sink) Open(name string) (sink.File, error) {
	if err := sink.Clean(name); err != nil {
		return nil, err
	}
	f := &file{sink: s, name: name}
	if err := s.ask("open", name, f.open); err != nil {
		return nil, err
	}
	f.size = f.reader.Stat().Size()
	return f, nil
}

// file reads at any position by way of a reader that has one position.
type file struct {
	sink *Sink
	name string
	size int64

	mu     sync.Mutex
	reader *hdfs.FileReader // nil = to be opened again: blocks may be elsewhere by now
}

func (f *file) open(c *hdfs.Client) error {
	r, err := c.Open(f.sink.at(f.name))
	if err != nil {
		return err
	}
	if r.Stat().IsDir() {
		return cmp.Or(r.Close(), errFolder)
	}
	f.reader = r
	return nil
}

// ReadAt reads at a position. The library asks one DataNode after the other;
// when none of a block's is left, the block is looked for again.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off >= f.size {
		return 0, io.EOF
	}
	n := 0
	err := f.sink.ask("read", f.name, func(c *hdfs.Client) error {
		if f.reader == nil {
			if err := f.open(c); err != nil {
				return err
			}
		}
		var err error
		n, err = f.reader.ReadAt(p[:min(int64(len(p)), f.size-off)], off)
		if err == nil {
			return nil
		}
		_ = f.reader.Close() // the error is the one to report
		f.reader = nil
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the file is longer
		}
		return unreadable(err)
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *file) Size() int64 { return f.size }

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader == nil {
		return nil
	}
	return classify("close", f.name, f.reader.Close(), sink.Permanent)
}

// unreadable explains an error of the library: where DataNodes protect their
// connections with DIGEST-MD5 alone, it loses bytes between two of their
// messages, and can write but not read. With AES it is right.
func unreadable(err error) error {
	if !strings.HasPrefix(err.Error(), "proto:") {
		return err
	}
	return refuse("the DataNodes protect what they send by DIGEST-MD5 alone, which this client can't read (%v): set dfs.data.transfer.protection to privacy with dfs.encrypt.data.transfer.cipher.suites AES/CTR/NoPadding, or to authentication", err)
}
