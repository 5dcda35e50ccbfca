package log

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// A folder's topic id stands in its partition.metadata, under a checksum that
// also mends one flipped bit. Where nothing tells the id, the folder waits: who
// makes the log of that name with an id this directory has known, and which is
// in no other folder, gets what is in it. What nobody has asked for by the first
// Tick is put aside.

var errNoPartition = errors.New("no topic id")

// nameless is a folder that does not tell its topic id.
type nameless struct {
	waiting map[string]error // what is wrong, by folder
	began   *startState      // what its logs are loaded with
}

// readPartition reads the topic id of a folder, mending the file when it can;
// sealed tells that a checksum confirms it.
func (d *Disk) readPartition(folder string) (id offsets.TopicID, sealed bool, err error) {
	name := path.Join(d.dir, folder, partitionName)
	b, err := vfs.ReadFile(d.fs, name)
	if errors.Is(err, os.ErrNotExist) {
		return id, false, fmt.Errorf("%w: %w", errNoPartition, err)
	}
	if err != nil {
		return id, false, err
	}
	id, sealed, err = decodePartition(b)
	if err == nil {
		return id, sealed, nil
	}
	mended, merr := mendPartition(b)
	if merr != nil {
		return id, false, fmt.Errorf("%w: %w", errNoPartition, err)
	}
	d.config.Logger.Warn("topic id was damaged and is mended", "path", name, "topic_id", mended, "err", err)
	return mended, true, vfs.Replace(d.vital, name, encodePartition(mended))
}

// discover finds the folders of logs and clears those half deleted. A folder
// without topic id and without records is one whose creation a power cut undid.
func (d *Disk) discover(at *startState) error {
	entries, err := d.fs.ReadDir(d.dir)
	if err != nil {
		return err
	}
	unsealed := map[string]*Log{}
	d.nameless = nameless{waiting: map[string]error{}, began: at}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, deleteSuffix) && e.IsDir() {
			if err := d.fs.RemoveAll(path.Join(d.dir, name)); err != nil {
				return err
			}
			continue
		}
		tp, ok := parseFolderName(name)
		if !ok || !e.IsDir() {
			continue
		}
		id, sealed, err := d.readPartition(name)
		switch {
		case errors.Is(err, errNoPartition) && d.holdsRecords(name):
			d.nameless.waiting[name] = err
			continue
		case errors.Is(err, errNoPartition):
			d.config.Logger.Warn("folder without topic id is put aside", "folder", name, "err", err)
			if err := d.aside(name, straySuffix); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		l := newLog(d, name, tp, id, foundConfig())
		d.logs[l.key()], d.names[name] = l, l
		if !sealed {
			unsealed[name] = l
		}
	}
	d.doubt(unsealed)
	if len(d.nameless.waiting) == 0 {
		d.nameless = nameless{}
	}
	return nil
}

// foundConfig is the setting of a log that was found, until its topic's is set:
// nothing is deleted before somebody has said how long records are kept.
func foundConfig() Config {
	c := DefaultConfig()
	c.RetentionMs = -1
	return c
}

// doubt makes folders nameless whose id, under no checksum, this directory never
// knew, but which is nearly one it did know and whose folder is missing.
func (d *Disk) doubt(unsealed map[string]*Log) {
	at := d.nameless.began
	for name, l := range unsealed {
		if at.knows(l.key()) {
			continue
		}
		for key, p := range at.points {
			if d.logs[key] == nil && p.recovery > p.start && key.partition == l.tp.Partition && nearly(key.topic, l.id) {
				delete(d.logs, l.key())
				delete(d.names, name)
				d.nameless.waiting[name] = fmt.Errorf("%w: %s is not known, but %s", errNoPartition, l.id, key.topic)
				break
			}
		}
	}
}

// nearly tells whether two ids differ in two characters at most.
func nearly(a, b offsets.TopicID) bool {
	differ := 0
	for i, c := range []byte(a.String()) {
		if b.String()[i] != c {
			differ++
		}
	}
	return differ <= 2
}

// knows tells whether the directory has held a log.
func (at *startState) knows(key logKey) bool {
	_, checkpointed := at.points[key]
	return checkpointed || at.journal[key] != nil
}

// holdsRecords tells whether a folder has a segment that is not empty.
func (d *Disk) holdsRecords(folder string) bool {
	entries, err := d.fs.ReadDir(path.Join(d.dir, folder))
	if err != nil {
		return true
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), logSuffix) {
			if info, err := e.Info(); err != nil || info.Size() > 0 {
				return true
			}
		}
	}
	return false
}

// adopt gives a log that is made the folder that waits under its name, when it
// can only be its; else the folder is put aside. mu of the disk is held.
func (d *Disk) adopt(l *Log) (adopted bool, err error) {
	folder := folderName(l.tp)
	why, waits := d.nameless.waiting[folder]
	if !waits {
		return false, nil
	}
	delete(d.nameless.waiting, folder)
	if d.logs[l.key()] != nil || !d.nameless.began.knows(l.key()) {
		d.config.Logger.Error("folder with records but without topic id is put aside", "folder", folder, "err", why)
		return false, d.aside(folder, straySuffix)
	}
	d.config.Logger.Warn("topic id was lost and is known again by the topic's name", "folder", folder, "topic_id", l.id, "err", why)
	if err := vfs.Replace(d.vital, l.file(partitionName), encodePartition(l.id)); err != nil {
		return false, err
	}
	return true, l.wrap("recover", errors.Join(l.load(d.nameless.began), d.disprove()))
}

// dropNameless puts the folders aside that nobody has asked for.
func (d *Disk) dropNameless() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for folder, why := range d.nameless.waiting {
		d.config.Logger.Error("folder with records but without topic id is put aside: no topic claims it", "folder", folder, "err", why)
		errs = append(errs, d.aside(folder, straySuffix))
	}
	d.nameless, d.lost = nameless{}, nil
	return errors.Join(errs...)
}

// dropStrays deletes folders put aside long ago.
func (d *Disk) dropStrays(now time.Time) error {
	entries, err := d.fs.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ms, ok := parseAsideName(e.Name(), straySuffix)
		if !ok || now.Sub(time.UnixMilli(ms)) < d.config.StrayDelay {
			continue
		}
		d.config.Logger.Info("stray folder is deleted", "folder", e.Name())
		if err := d.fs.RemoveAll(path.Join(d.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
