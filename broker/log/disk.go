package log

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

const osReadWrite = os.O_RDWR

// Disk is one data directory and the logs in it.
type Disk struct {
	fs     vfs.FS
	vital  vfs.FS // the same, for what must be written on a full disk as well
	dir    string
	config DiskConfig
	files  *files
	lock   interface{ Close() error }

	ballast *ballast
	journal *journal
	flusher *flusher
	cleaned *cleanPoints
	cleaner *cleaner
	remover remover

	previous running // how the run before this one ended
	firstRun bool
	lacking  atomic.Bool // a log has lost what was synced
	failed   atomic.Bool
	failure  chan error

	mu    sync.Mutex
	meta  Meta
	epoch int64 // broker epoch
	logs  map[logKey]*Log
	names map[string]*Log // by folder

	nameless nameless
	lost     map[logKey]point // logs that held records, and whose folders are not there

	checkpointMu sync.Mutex
	points       map[logKey]point // as last written
}

// startState is what the files of the directory tell recovery.
type startState struct {
	clean   bool
	walkAll bool // the journal is damaged: find epochs in all batches
	points  map[logKey]point
	journal map[logKey]*remembered
}

// OpenDisk locks a data directory, making it when it is not there, and recovers
// the logs in it. A second process is refused with vfs.ErrLocked.
func OpenDisk(fs vfs.FS, dir string, c DiskConfig) (*Disk, error) {
	c.fill()
	if err := makeDir(fs, dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := fs.Lock(path.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	d := &Disk{
		fs: fs, dir: dir, config: c, lock: lock, failure: make(chan error, 1),
		logs: map[logKey]*Log{}, names: map[string]*Log{}, epoch: -1,
	}
	d.ballast = newBallast(fs, dir, c.BallastBytes)
	d.ballast.find()
	d.vital = vfs.Relieved(fs, d.Relieve)
	d.files = &files{fs: d.vital, max: c.MaxOpenFiles, fail: d.fail}
	if err := d.start(); err != nil {
		d.closeFiles()
		return nil, fmt.Errorf("data directory %s: %w", dir, errors.Join(err, lock.Close()))
	}
	d.files.through(fs)
	d.reballast(c.Now())
	d.flusher = startFlusher()
	d.cleaner = startCleaner(d)
	return d, nil
}

// makeDir makes a folder and those above it so that they survive a power cut.
func makeDir(fs vfs.FS, dir string) error {
	dir = path.Clean(dir)
	if _, err := fs.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeDir(fs, path.Dir(dir)); err != nil {
		return err
	}
	if err := fs.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return fs.SyncDir(path.Dir(dir))
}

func (d *Disk) start() error {
	var err error
	if d.meta, err = readMeta(d.fs, d.dir); err != nil {
		return err
	}
	var ran bool
	if d.previous, ran, err = readRunning(d.fs, d.dir); err != nil {
		return err
	}
	mark, points, err := d.readPoints()
	if err != nil {
		return err
	}
	d.firstRun = !ran && len(points) == 0
	d.epoch = d.PreviousBrokerEpoch() // what it proves stays true until the broker is registered anew
	if err := d.writeRunning(stateRunning); err != nil {
		return err
	}
	at := &startState{clean: d.CleanStart()}
	at.points, d.points = points, points
	var damaged int
	if d.journal, at.journal, damaged, err = openJournal(d.vital, d.dir, mark); err != nil {
		return err
	}
	if at.walkAll = damaged > 0; at.walkAll {
		at.clean = false
		d.config.Logger.Error("epoch journal is damaged; epochs are read from all batches", "records", damaged)
	}
	if err := d.discover(at); err != nil {
		return err
	}
	d.miss(at)
	var lost error
	if d.cleaned, lost, err = readCleanPoints(d.vital, d.dir); err != nil {
		return err
	}
	if lost != nil {
		d.config.Logger.Error("compaction points are not readable; logs are compacted anew", "err", lost)
	}
	if err := d.loadAll(at); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.disprove()
}

// readPoints reads the checkpoint; a damaged one only makes recovery longer.
func (d *Disk) readPoints() (journalMark, map[logKey]point, error) {
	b, err := vfs.ReadFile(d.fs, path.Join(d.dir, checkpointName))
	if errors.Is(err, os.ErrNotExist) {
		return journalMark{}, map[logKey]point{}, nil
	}
	if err != nil {
		return journalMark{}, nil, err
	}
	mark, points, err := decodePoints(b)
	if err != nil {
		d.config.Logger.Error("checkpoint is not readable; all logs are read whole", "err", err)
		return journalMark{}, map[logKey]point{}, nil
	}
	return mark, points, nil
}

// loadAll recovers the logs, a few at a time.
func (d *Disk) loadAll(at *startState) error {
	logs := d.Logs()
	next := atomic.Int64{}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(logs)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(logs) {
					return
				}
				if err := logs[i].load(at); err != nil {
					mu.Lock()
					errs = append(errs, logs[i].wrap("recover", err))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Meta says whose directory it is; ClusterID is empty before SetMeta.
func (d *Disk) Meta() Meta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta
}

// SetMeta writes meta.properties.
func (d *Disk) SetMeta(m Meta) error {
	return d.ChangeMeta(func(old *Meta) { *old = m })
}

// ChangeMeta writes meta.properties with a change made to it.
func (d *Disk) ChangeMeta(change func(*Meta)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.meta
	change(&m)
	m.Format = MetaFormat
	if err := vfs.Replace(d.vital, path.Join(d.dir, metaName), m.encode()); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Logs are all logs, in the order of topic and partition.
func (d *Disk) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*Log, 0, len(d.logs))
	for _, l := range d.logs {
		out = append(out, l)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].tp.Compare(out[j].tp) < 0 })
	return out
}

// Log finds a log.
func (d *Disk) Log(tp offsets.TopicPartition, id offsets.TopicID) (*Log, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, ok := d.logs[logKey{id, tp.Partition}]
	return l, ok && l.tp == tp
}

// Create makes a log, or finds it. The folder of another topic of that name
// must be deleted or put aside before. Nothing is synced yet: the metadata says
// that the log exists, and its first flush syncs all of it.
func (d *Disk) Create(tp offsets.TopicPartition, id offsets.TopicID, c Config) (*Log, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed.Load() {
		return nil, fmt.Errorf("create %s: %w", tp, ErrFailed)
	}
	folder := folderName(tp)
	if l := d.names[folder]; l != nil {
		if l.id == id {
			return l, nil
		}
		return nil, fmt.Errorf("create %s: topic %s is in the way: %w", tp, l.id, os.ErrExist)
	}
	l := newLog(d, folder, tp, id, c)
	if adopted, err := d.adopt(l); err != nil {
		return nil, err
	} else if adopted {
		d.logs[l.key()], d.names[folder] = l, l
		return l, nil
	}
	if p, was := d.lost[l.key()]; was {
		d.lacks(l, p.recovery, 0)
	}
	if err := d.disprove(); err != nil {
		return nil, err
	}
	if err := d.fs.MkdirAll(l.path, 0o755); err != nil {
		return nil, err
	}
	f, err := d.fs.OpenFile(l.file(partitionName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(encodePartition(id))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	l.view = view{segments: []*segment{newSegment(l, 0)}}
	// The directory may have held this very partition before.
	if err := d.cleaned.lower(l.key(), 0); err != nil {
		return nil, err
	}
	err = d.journal.write(false, journalEntry{journalEnd, l.key(), 0, 0}, journalEntry{journalStart, l.key(), 0, 0})
	if err != nil {
		return nil, err
	}
	d.logs[l.key()], d.names[folder] = l, l
	return l, nil
}

// Delete removes logs: at once for all who look, for good when it returns, and
// in the background from the disk. Regions in flight stay readable.
func (d *Disk) Delete(logs ...*Log) error {
	var folders []string
	var errs []error
	for _, l := range logs {
		folder, err := d.forget(l, deleteSuffix)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		folders = append(folders, folder)
	}
	if len(folders) > 0 {
		errs = append(errs, d.fs.SyncDir(d.dir))
		d.remover.soon(d, folders)
	}
	return errors.Join(errs...)
}

// Stray puts the folder of a log aside that the metadata does not know; Tick
// deletes it after StrayDelay.
func (d *Disk) Stray(l *Log) error {
	if _, err := d.forget(l, straySuffix); err != nil {
		return err
	}
	return d.fs.SyncDir(d.dir)
}

// forget closes a log and renames its folder; the caller syncs the directory.
func (d *Disk) forget(l *Log, suffix string) (folder string, err error) {
	l.flushMu.Lock()
	l.mu.Lock()
	was := l.closed
	l.closed = true
	segments := l.view.segments
	l.mu.Unlock()
	l.flushMu.Unlock()
	if was {
		return "", l.wrap("forget", ErrClosed)
	}
	for _, s := range segments {
		s.doom()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logs, l.key())
	delete(d.names, folderName(l.tp))
	folder = d.vacant(folderName(l.tp), suffix)
	if err := d.fs.Rename(l.path, path.Join(d.dir, folder)); err != nil {
		return "", l.wrap("put aside", err)
	}
	return folder, nil
}

// vacant is the name a folder is put aside under: with the time, or the next
// one that isn't taken, since a partition may be deleted, made and deleted again
// before the clock or the remover has moved on.
func (d *Disk) vacant(folder, suffix string) string {
	for ms := d.config.Now().UnixMilli(); ; ms++ {
		name := asideName(folder, ms, suffix)
		if _, err := d.fs.Stat(path.Join(d.dir, name)); err != nil {
			return name // absent; any other error shows at the rename
		}
	}
}

// aside renames a folder that is no log.
func (d *Disk) aside(folder, suffix string) error {
	to := d.vacant(folder, suffix)
	if err := d.fs.Rename(path.Join(d.dir, folder), path.Join(d.dir, to)); err != nil {
		return err
	}
	return d.fs.SyncDir(d.dir)
}

// CleanStart tells that the run before this one was stopped in order, or that
// this is the first.
func (d *Disk) CleanStart() bool { return d.firstRun || d.previous.state == stateStopped }

// SameBoot tells that the run before this one was killed but the kernel, and
// with it the page cache, lived on: nothing that was acknowledged is lost.
func (d *Disk) SameBoot() bool {
	return d.previous.state == stateRunning && d.previous.boot != "" && d.previous.boot == d.config.BootID
}

// PreviousBrokerEpoch is the broker epoch of the run before this one when
// nothing was lost since, else -1.
func (d *Disk) PreviousBrokerEpoch() int64 {
	if !d.firstRun && (d.CleanStart() || d.SameBoot()) && !d.lacking.Load() {
		return d.previous.epoch
	}
	return -1
}

// SetBrokerEpoch notes the epoch the broker is registered with.
func (d *Disk) SetBrokerEpoch(epoch int64) error {
	d.mu.Lock()
	d.epoch = epoch
	d.mu.Unlock()
	d.lacking.Store(false) // the controller knows
	return d.writeRunning(stateRunning)
}

func (d *Disk) writeRunning(state string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writeRunningHeld(state)
}

func (d *Disk) writeRunningHeld(state string) error {
	r := running{state, d.config.BootID, d.epoch}
	return vfs.Replace(d.vital, path.Join(d.dir, runningName), r.encode())
}

// Failed yields the error that ended all writing to the directory.
func (d *Disk) Failed() <-chan error { return d.failure }

// fail ends all writing: after an I/O error, and above all after a failed sync,
// nobody knows what is on the disk. It is never retried.
func (d *Disk) fail(err error) {
	if d.failed.Swap(true) {
		return
	}
	d.config.Logger.Error("data directory has failed; no more writes", "dir", d.dir, "err", err)
	d.failure <- err
	// The marker keeps the next start from trusting the page cache; a disk that
	// refuses it refuses the next start as well.
	_ = d.writeRunning(stateFailed)
}

// Close flushes all logs and leaves the mark of a clean stop. Regions in flight
// stay readable.
func (d *Disk) Close() error {
	d.cleaner.close()
	d.flusher.close()
	d.remover.close()
	err := closeAll(d.Logs())
	if err == nil && !d.failed.Load() {
		err = d.checkpoint()
	}
	if err == nil && !d.failed.Load() {
		err = d.writeRunning(stateStopped)
	}
	d.closeFiles()
	if d.journal != nil && d.journal.file != nil {
		err = errors.Join(err, d.journal.Close())
	}
	if err == nil && d.failed.Load() {
		err = ErrFailed
	}
	return errors.Join(err, d.lock.Close())
}

// closesAtOnce is how many logs wait for the disk together while closing: a
// journal of the file system commits their syncs in one go.
const closesAtOnce = 32

func closeAll(logs []*Log) error {
	errs := make([]error, closesAtOnce)
	var wg sync.WaitGroup
	for n := range closesAtOnce {
		wg.Go(func() {
			for i := n; i < len(logs); i += closesAtOnce {
				errs[n] = errors.Join(errs[n], logs[i].close())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// closeFiles lets go of every segment file.
func (d *Disk) closeFiles() {
	for _, l := range d.Logs() {
		for _, s := range l.look().segments {
			s.doom()
		}
	}
}
