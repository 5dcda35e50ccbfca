package hdfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// Permissions of what a sink makes, before nobody's mask.
const (
	folderMode = 0o755
	fileMode   = 0o644
)

// Sink is a folder of HDFS. It connects when it is asked for something.
type Sink struct {
	target *target
	limits limits
	ctx    context.Context    // what fails once it is done isn't tried again
	late   context.Context    // connections break when it is done, a moment after ctx
	end    context.CancelFunc // of late

	mu     sync.Mutex
	client *hdfs.Client // nil = not connected
	hangUp func() error // closes it
	acts   int          // under way
	tired  *time.Timer  // gives the connection up; nil = never needed yet
	unbind func() bool  // of late from ctx; nil = nothing is connected
}

var _ sink.Sink = (*Sink)(nil)

// Open returns the sink an hdfs: URI names. It asks nothing of the network.
//
// The sink works for as long as ctx does. When that is done, what is under way
// and the clearing away after it have a moment left (grace); what fails then isn't
// tried again, and its error is ctx's, too.
func Open(ctx context.Context, uri string, access sink.Access) (*Sink, error) {
	t, err := targetOf(uri, access)
	if err != nil {
		return nil, err
	}
	return newSink(ctx, t, usual.within(access.Patience)), nil
}

func newSink(ctx context.Context, t *target, l limits) *Sink {
	s := &Sink{target: t, limits: l, ctx: ctx}
	s.late, s.end = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Close ends the connection now; without it that happens after a while. The sink
// connects again when it is asked for something.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tired != nil {
		s.tired.Stop()
	}
	s.free()
	if s.client == nil {
		return nil
	}
	err := s.hangUp()
	s.client, s.hangUp = nil, nil
	return classify("close", "", err, sink.Permanent)
}

// Root is the URI the sink was opened with.
func (s *Sink) Root() string { return s.target.uri }

// at is the absolute path of a name.
func (s *Sink) at(name string) string { return path.Join(s.target.dir, name) }

// Mkdir makes one folder. After a lost answer a folder of that name is taken for
// the one that was asked for: attempts have names of their own.
func (s *Sink) Mkdir(name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return s.change("mkdir", name, func(c *hdfs.Client) error {
		return c.Mkdir(s.at(name), folderMode)
	}, func(c *hdfs.Client) (bool, error) { return there(c, s.at(name)) })
}

// MkdirAll makes a folder and those above it, the root too.
func (s *Sink) MkdirAll(name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return s.change("mkdir", name, func(c *hdfs.Client) error {
		return c.MkdirAll(s.at(name), folderMode)
	}, func(c *hdfs.Client) (bool, error) { return there(c, s.at(name)) })
}

// there tells whether something has a name.
func there(c *hdfs.Client, name string) (bool, error) {
	_, err := c.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Rename moves a file and replaces what is at to. After a lost answer it is
// done when from is gone and to is there.
func (s *Sink) Rename(from, to string) error {
	if err := cmp.Or(sink.Clean(from), sink.Clean(to)); err != nil {
		return err
	}
	return s.change("rename", from+" to "+to, func(c *hdfs.Client) error {
		return c.Rename(s.at(from), s.at(to))
	}, func(c *hdfs.Client) (bool, error) {
		left, err := there(c, s.at(from))
		if err != nil || left {
			return false, err
		}
		return there(c, s.at(to))
	})
}

// Above finds the nearest folder above the root that holds name.
func (s *Sink) Above(name string) (string, error) {
	if err := sink.Clean(name); err != nil {
		return "", err
	}
	for dir := s.target.dir; dir != "/"; {
		dir = path.Dir(dir)
		err := s.ask("stat", name, func(c *hdfs.Client) error {
			_, err := c.Stat(path.Join(dir, name))
			return err
		})
		switch {
		case err == nil:
			return strings.TrimSuffix(s.target.uri, s.target.dir) + dir, nil
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission):
			return "", err
		}
	}
	return "", nil
}

// Remove takes away a file or an empty folder.
func (s *Sink) Remove(name string) error { return s.remove(name, (*hdfs.Client).Remove) }

// RemoveAll takes away a file, or a folder with all in it.
func (s *Sink) RemoveAll(name string) error { return s.remove(name, (*hdfs.Client).RemoveAll) }

func (s *Sink) remove(name string, remove func(*hdfs.Client, string) error) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	return s.change("remove", name, func(c *hdfs.Client) error {
		return remove(c, s.at(name))
	}, func(c *hdfs.Client) (bool, error) {
		left, err := there(c, s.at(name))
		return !left, err
	})
}

// Stat describes a file or folder.
func (s *Sink) Stat(name string) (sink.Entry, error) {
	if err := sink.Clean(name); err != nil {
		return sink.Entry{}, err
	}
	var e sink.Entry
	err := s.ask("stat", name, func(c *hdfs.Client) error {
		st, err := c.Stat(s.at(name))
		if err == nil {
			e = sink.EntryOf(st)
		}
		return err
	})
	return e, err
}

// List describes what a folder holds.
func (s *Sink) List(name string) ([]sink.Entry, error) {
	if err := sink.Clean(name); err != nil {
		return nil, err
	}
	entries := []sink.Entry{}
	err := s.ask("list", name, func(c *hdfs.Client) error {
		entries = entries[:0]
		found, err := c.ReadDir(s.at(name))
		for _, st := range found {
			entries = append(entries, sink.EntryOf(st))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b sink.Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, nil
}

// ReadFile reads a whole file.
func (s *Sink) ReadFile(name string) ([]byte, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	return data, cmp.Or(err, f.Close())
}

// Sync does nothing: a file is with its DataNodes, and its name in the
// NameNode's log, once it was closed.
func (s *Sink) Sync(...string) error { return nil }
