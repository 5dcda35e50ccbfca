package hdfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// PutIfAbsent writes the file into a folder of its own and renames that folder
// onto the folder of name: in one step the NameNode makes it appear with all it
// holds, or refuses, for a folder that holds something is never replaced
// (FSDirRenameOp.validateOverwrite).
//
// After a lost answer the folder tells: nobody else moves it. While it is there,
// the same rename is repeated, and before giving up the folder is deleted, so that
// a rename that comes late finds nothing. Once it is gone the rename was carried
// out, or a sweep took it, if this process stood still for a day: the file itself
// says which.
func (s *Sink) PutIfAbsent(name string, data []byte) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	dir := path.Dir(name)
	if name == "" || dir == "." {
		return classify("put", name, errNoFolder, sink.Permanent)
	}
	if _, err := s.Stat(name); !errors.Is(err, sink.ErrNotExist) {
		return classify("put", name, cmp.Or(err, os.ErrExist), sink.Permanent)
	}
	above := path.Dir(dir)
	if above == "." {
		above = ""
	}
	if err := s.MkdirAll(above); err != nil {
		return err
	}
	temp := path.Join(above, sink.PutPrefix+nonce())
	if err := s.Mkdir(temp); err != nil {
		return err
	}
	err := sink.Write(s, path.Join(temp, path.Base(name)), data)
	if err != nil {
		err = &sink.Error{Op: "put", Path: name, Class: sink.ClassOf(err), Err: err}
		_ = s.RemoveAll(temp) // the error above is the one to report
		return err
	}
	return s.place(temp, name, data)
}

// place renames the folder that holds the file onto the folder of name.
func (s *Sink) place(temp, name string, data []byte) error {
	s.enter()
	defer s.leave()
	dir := path.Dir(name)
	wait := s.patience()
	for {
		c, err := s.connect()
		if err == nil {
			err = c.Rename(s.at(temp), s.at(dir))
		}
		if err == nil {
			return nil
		}
		said := outcomeOf(err)
		if c != nil {
			left, taken, look := s.look(c, temp, name)
			switch {
			case look != nil: // not known yet
			case !left:
				return s.moved(name, data)
			case taken:
				_ = s.RemoveAll(temp) // it lost, whatever becomes of it
				return classify("put", name, os.ErrExist, sink.Permanent)
			case said == answered:
				err = fmt.Errorf("%w: %s is taken by something else", err, dir)
				_ = s.RemoveAll(temp) // the error above is the one to report
				return classify("put", name, err, sink.Permanent)
			}
		}
		if !wait.wait() {
			return s.giveUp(temp, name, data, err)
		}
	}
}

// look tells whether the folder is there still, and then whether the file is.
func (s *Sink) look(c *hdfs.Client, temp, name string) (left, taken bool, err error) {
	if left, err = there(c, s.at(temp)); err != nil || !left {
		return false, false, err
	}
	taken, err = there(c, s.at(name))
	return true, taken, err
}

// moved tells what became of a folder that is gone.
func (s *Sink) moved(name string, data []byte) error {
	have, err := s.ReadFile(name)
	switch {
	case errors.Is(err, sink.ErrNotExist):
		return classify("put", name, sink.ErrSwept, sink.Retryable)
	case err != nil:
		return &sink.Error{Op: "put", Path: name, Class: sink.Ambiguous, Err: err}
	case !bytes.Equal(have, data):
		return classify("put", name, os.ErrExist, sink.Permanent)
	}
	return nil
}

// giveUp makes sure that the file does not appear later. Only when the NameNode
// can't be reached for as long again is that not known.
func (s *Sink) giveUp(temp, name string, data []byte, err error) error {
	if gone := s.RemoveAll(temp); gone != nil {
		return s.spent("put", name, errors.Join(err, gone), sink.Ambiguous)
	}
	have, look := s.ReadFile(name)
	switch {
	case errors.Is(look, sink.ErrNotExist):
		return s.spent("put", name, err, sink.Retryable)
	case look != nil, bytes.Equal(have, data):
		return &sink.Error{Op: "put", Path: name, Class: sink.Ambiguous, Err: errors.Join(plain(err), look)}
	default:
		return classify("put", name, os.ErrExist, sink.Permanent)
	}
}
