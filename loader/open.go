package loader

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"sawlog/loader/sink"
)

// Ledger is an open ledger: the fold as of the last look, and the acts on it.
// It is used by one goroutine at a time; several processes may each have one on
// the same data set.
type Ledger struct {
	sink    sink.Sink
	c       LedgerConfig
	dataset string
	job     string

	fold       *Fold
	head       *Record              // record fold.Head; nil = none
	wrote      int64                // last record this Ledger wrote; -1 = none
	settled    int64                // last record known to be published and marked; -1 = none
	checkpoint int64                // last checkpoint seen; -1 = none
	sealed     map[string]bool      // staged files read back and found good
	buckets    map[string]*bucketer // by their rule
}

// LedgerConfig is what a Ledger needs from outside; every field may be empty.
type LedgerConfig struct {
	Logger *slog.Logger
	Now    func() time.Time // the clock; default the machine's
	// Check reads a file back and compares it with what the ledger says of its
	// rows; default CheckFooter.
	Check FileCheck
	// Remake makes splits of a plan again; without it a lost file is an error.
	Remake Remake
	// Fault is asked at each point of the crash table, for tests.
	Fault func(FaultPoint) error
}

// FileCheck compares the content of a file with its entry.
type FileCheck func(r io.ReaderAt, size int64, file *File) error

// Remake makes attempts of splits of a plan and returns what they report. Each
// attempt has a new folder.
type Remake func(ctx context.Context, ask RemakeAsk) ([]*Result, error)

// RemakeAsk says which splits are to be made again.
type RemakeAsk struct {
	PlanID  string
	Plan    *Plan // its Writer.Profile is the one to use
	Splits  []int
	Number  int64  // record that committed the plan; -1 = none
	Because string // for people
}

// FaultPoint is a point at which a process may die.
type FaultPoint string

// The fault points, in order; those that end in ":" come once per file, with
// its path.
const (
	AfterPlan      FaultPoint = "plan"
	AfterSeal      FaultPoint = "seal"
	AfterDurable   FaultPoint = "durable"
	BeforeCommit   FaultPoint = "before commit"
	AfterCommit    FaultPoint = "commit"
	AfterFile      FaultPoint = "published:"
	AfterPublish   FaultPoint = "published"
	AfterHour      FaultPoint = "marked:"
	AfterMark      FaultPoint = "marked"
	AfterRetireOne FaultPoint = "retired:"
	BeforeRestore  FaultPoint = "before restore"
)

func (l *Ledger) fault(p FaultPoint) error {
	if l.c.Fault == nil {
		return nil
	}
	return l.c.Fault(p)
}

// OpenLedger reads the ledger of a data set. With names given, a root that
// belongs to another data set or job is refused, and one without a ledger is
// new; without names there must be a ledger. It writes nothing.
func OpenLedger(ctx context.Context, s sink.Sink, dataset, job string, c LedgerConfig) (*Ledger, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Check == nil {
		c.Check = CheckFooter
	}
	l := &Ledger{
		sink: s, c: c, dataset: dataset, job: job,
		wrote: -1, settled: -1, checkpoint: -1, sealed: map[string]bool{}, buckets: map[string]*bucketer{},
	}
	head, err := l.findHead()
	if err != nil {
		return nil, err
	}
	if head < 0 && dataset == "" {
		e := fail(ExitNotFound, "%s holds no ledger", s.Root())
		return nil, e.hint("a data set has a folder %s; give the root of one", LedgerDir)
	}
	if head < 0 {
		if err := alone(s); err != nil {
			return nil, err
		}
	}
	l.fold = l.readCheckpoint(head)
	if err := l.readTo(ctx, head); err != nil {
		return nil, err
	}
	if _, err := l.refresh(ctx); err != nil {
		return nil, err
	}
	if dataset == "" {
		l.dataset, l.job = l.fold.Dataset, l.fold.Job
	}
	return l, l.checkOwner()
}

// checkOwner refuses a root another data set or job has.
func (l *Ledger) checkOwner() error {
	if l.fold.Head < 0 || l.fold.Dataset == l.dataset && l.fold.Job == l.job {
		return nil
	}
	e := fail(ExitConflict, "%s belongs to data set %q of job %q, not to %q of %q",
		l.sink.Root(), l.fold.Dataset, l.fold.Job, l.dataset, l.job)
	return e.hint("a data set has one root and one job: give this job a root of its own")
}

// bucketer is that of a plan's rule, made once.
func (l *Ledger) bucketer(p *Plan) (*bucketer, error) {
	rule := fmt.Sprint(p.Bucket)
	if b := l.buckets[rule]; b != nil {
		return b, nil
	}
	b, err := newBucketer(p.Bucket)
	if err == nil {
		l.buckets[rule] = b
	}
	return b, err
}

// Fold is the fold of all records seen so far; it changes with the next call.
func (l *Ledger) Fold() *Fold { return l.fold }

// Sink is where the data set lives.
func (l *Ledger) Sink() sink.Sink { return l.sink }

// findHead lists the ledger: the last number whose record is there. Every
// number below it must be there too; the one above may be a folder in which a
// record is just being put.
func (l *Ledger) findHead() (int64, error) {
	entries, err := l.sink.List(LedgerDir)
	if errors.Is(err, sink.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, readError(err)
	}
	var numbers []int64
	for _, e := range entries {
		if !e.Dir || !recordPattern.MatchString(e.Name) {
			continue
		}
		n, err := strconv.ParseInt(e.Name, 10, 64)
		if err != nil {
			return -1, damaged(&RecordError{Number: -1, Rule: "form", Err: fmt.Errorf("folder %s/%s: %w", LedgerDir, e.Name, err)})
		}
		numbers = append(numbers, n)
	}
	head := int64(len(numbers)) - 1
	for i, n := range numbers { // List answers in order of the names
		if n != int64(i) {
			return -1, damaged(&RecordError{Number: int64(i), Rule: "chain", Err: fmt.Errorf("is missing, but there is a folder for record %d", numbers[head])})
		}
	}
	if head < 0 {
		return -1, nil
	}
	switch _, err := l.sink.Stat(RecordPath(head)); {
	case err == nil:
		return head, nil
	case errors.Is(err, sink.ErrNotExist):
		return head - 1, nil
	default:
		return -1, readError(err)
	}
}

// readTo folds the records up to head, all of which must be there.
func (l *Ledger) readTo(ctx context.Context, head int64) error {
	if l.fold.Head > head {
		return damaged(&RecordError{Number: l.fold.Head, Rule: "chain", Err: errors.New("is missing, but was there before")})
	}
	for l.fold.Head < head {
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := l.readNext()
		if err != nil {
			return err
		}
		if !found {
			return damaged(&RecordError{Number: l.fold.Head + 1, Rule: "chain", Err: fmt.Errorf("is missing, but record %d is there", head)})
		}
	}
	return nil
}

// refresh folds the records that came since the last look.
func (l *Ledger) refresh(ctx context.Context) (moved bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return moved, err
		}
		found, err := l.readNext()
		if err != nil || !found {
			return moved, err
		}
		moved = true
	}
}

// readNext folds the next record, if it is there.
func (l *Ledger) readNext() (bool, error) {
	n := l.fold.Head + 1
	rec, hash, err := readRecord(l.sink, n)
	if errors.Is(err, sink.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := l.fold.Apply(rec, hash); err != nil {
		return false, damaged(err)
	}
	l.head = rec
	return true, nil
}

// readRecord reads record n and the list of files that belongs to it; the error
// is sink.ErrNotExist when there is no such record.
func readRecord(s sink.Sink, n int64) (rec *Record, hash string, err error) {
	data, err := s.ReadFile(RecordPath(n))
	if err != nil {
		return nil, "", readError(err)
	}
	if rec, err = DecodeRecord(n, data); err != nil {
		return nil, "", damaged(err)
	}
	if rec.FilesRef == "" {
		return rec, sum(data), nil
	}
	name := FilesPath(rec.Plan, rec.FilesRef)
	list, err := s.ReadFile(name)
	if err == nil && sum(list) != rec.FilesRef {
		err = fmt.Errorf("%s: its content has sha256 %s", name, sum(list))
	}
	if err == nil {
		rec.Files, err = decodeFiles(list)
	}
	if err != nil {
		return nil, "", damaged(&RecordError{Number: n, Rule: "form", Err: noSentinel(err)})
	}
	return rec, sum(data), nil
}

// Record reads one record of the ledger, its files included.
func (l *Ledger) Record(n int64) (*Record, error) {
	rec, _, err := readRecord(l.sink, n)
	return rec, err
}

// noSentinel hides that a file was missing from errors.Is: a record whose list
// is gone is damaged, not absent.
func noSentinel(err error) error { return errors.New(err.Error()) }

// damaged is the error of a ledger that cannot be believed.
func damaged(err error) error {
	e := &Error{Code: ExitMismatch, Err: err}
	return e.hint("records are never rewritten: restore the named file from a copy of the data set, or load the data into another root with replay")
}

// readError is the error of a sink that could not be asked.
func readError(err error) error {
	if errors.Is(err, sink.ErrNotExist) {
		return err
	}
	return sinkError("", err)
}

// sinkError gives an error of a sink its exit code: one that may pass is 6, that
// of who was asked to stop 130.
func sinkError(msg string, err error) error {
	if err == nil {
		return nil
	}
	code := ExitFailed
	switch {
	case errors.Is(err, context.Canceled):
		code = ExitInterrupted
	case sink.ClassOf(err) != sink.Permanent:
		code = ExitUnavailable
	case errors.Is(err, fs.ErrPermission):
		code = ExitAuth
	case errors.Is(err, sink.ErrRefused):
		code = ExitConflict
	}
	return &Error{Code: code, Msg: msg, Err: err}
}

// newNonce tells records of two writers apart whatever else they share.
func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// replacement is new content of a small file.
type replacement struct {
	name string
	data []byte
}

// replace writes a small file that readers see whole.
func (l *Ledger) replace(name string, data []byte) error {
	return unswept(func() error {
		if err := l.sink.MkdirAll(TempDir); err != nil {
			return sinkError("", err)
		}
		return l.replaceAll(context.Background(), TempDir, []replacement{{name, data}}, "")
	})
}

// replaceAll writes small files one after the other, by way of the folder desk;
// readers see each whole, and all are durable in the end. point, when set, is
// the fault point after each.
func (l *Ledger) replaceAll(ctx context.Context, desk string, files []replacement, point FaultPoint) error {
	const batch = 1000 // temporary files at a time
	for chunk := range slices.Chunk(files, batch) {
		if err := l.replaceChunk(ctx, desk, chunk, point); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) replaceChunk(ctx context.Context, desk string, files []replacement, point FaultPoint) error {
	temps := make([]string, len(files))
	folders := map[string]bool{}
	for i, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		temps[i] = desk + "/" + newNonce()
		if err := sink.Write(l.sink, temps[i], file.data); err != nil {
			return sinkError("write "+file.name, err)
		}
		dir := path.Dir(file.name)
		if !folders[dir] {
			if err := l.sink.MkdirAll(dir); err != nil {
				return sinkError("", err)
			}
			folders[dir] = true
		}
	}
	if err := l.sink.Sync(temps...); err != nil {
		return sinkError("", err)
	}
	for i, file := range files {
		if err := l.sink.Rename(temps[i], file.name); err != nil {
			return sinkError("write "+file.name, err)
		}
		if point != "" {
			if err := l.fault(point + FaultPoint(file.name)); err != nil {
				return err
			}
		}
	}
	return sinkError("", l.sink.Sync(slices.Sorted(maps.Keys(folders))...))
}
