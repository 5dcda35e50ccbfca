package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sawlog/loader/sink"
)

// Manifest is _manifest.json of an hour: its visible files as of a record.
type Manifest struct {
	V       int            `json:"v"`
	Number  int64          `json:"number"` // ledger record the list is as of
	Dataset string         `json:"dataset"`
	Hour    int64          `json:"hour"`   // bucket key
	Sealed  *int64         `json:"sealed"` // record that sealed the hour; null = open
	Rows    int64          `json:"rows"`
	Late    int64          `json:"late"`
	Bytes   int64          `json:"bytes"`
	Files   []ManifestFile `json:"files"`
}

// ManifestFile is one file of an hour.
type ManifestFile struct {
	Name   string       `json:"name"` // path from the folder of the manifest
	Bytes  int64        `json:"bytes"`
	SHA256 string       `json:"sha256"`
	Digest string       `json:"digest"`
	Rows   int64        `json:"rows"`
	Late   int64        `json:"late"`
	Record int64        `json:"record"` // that made it visible
	Plan   string       `json:"plan"`
	Parts  []SplitRange `json:"parts,omitempty"`
}

// Success is _SUCCESS of a sealed hour: it goes with the manifest of the same
// number.
type Success struct {
	Number int64 `json:"number"`
}

// mark writes the manifests and success marks of hours as the fold has them.
// Another process may have added a record meanwhile and marked the same hours
// before our older manifest came over its own, so the head is read again after
// the last rename, and all is repeated while it moved.
func (l *Ledger) mark(ctx context.Context, hours map[int64]bool) error {
	for {
		moved, err := l.markOnce(ctx, hours)
		if err != nil {
			return err
		}
		if !moved {
			return l.fault(AfterMark)
		}
		if err := l.secure(l.fold.Head); err != nil {
			return err
		}
		if _, err := l.publishHead(ctx, nil); err != nil {
			return err
		}
		maps.Copy(hours, hoursOf(l.fold, l.fold.Head))
	}
}

// markTries bounds how often a desk may be swept away under a marker.
const markTries = 5

// markOnce writes the marks once and tells whether the head moved.
//
// A marker may stand still for long, and then put a success mark back that a
// record which retires files has taken away. So marks are written on a desk, a
// folder of their own, made before the head is read; whoever retires takes all
// desks away before the marks (unmark). A desk that is older than the record
// is gone, and the renames from it fail; who makes one later sees the record.
func (l *Ledger) markOnce(ctx context.Context, hours map[int64]bool) (moved bool, failed error) {
	for range markTries {
		moved, written, err := l.atDesk(ctx, hours)
		if err != nil || moved {
			return moved, err
		}
		if written != nil && !errors.Is(written, sink.ErrNotExist) {
			return false, written
		}
		if moved, err = l.refresh(ctx); err != nil || moved || written == nil {
			return moved, err
		}
		failed = written // the desk was swept away, and no record came
	}
	return false, failed
}

// atDesk makes a desk, reads the head, and writes the marks if it has not moved.
func (l *Ledger) atDesk(ctx context.Context, hours map[int64]bool) (moved bool, written, err error) {
	desk := deskPrefix + newNonce()
	if err := l.sink.MkdirAll(TempDir); err != nil {
		return false, nil, sinkError("mark", err)
	}
	if err := l.sink.Mkdir(desk); err != nil {
		return false, nil, sinkError("mark", err)
	}
	defer func() {
		if removed := l.sink.RemoveAll(desk); removed != nil {
			l.c.Logger.Warn("marks stay", "path", desk, "err", removed)
		}
	}()
	if moved, err = l.refresh(ctx); err != nil || moved {
		return moved, nil, err
	}
	marks, err := l.marks(hours)
	if err != nil {
		return false, nil, err
	}
	return false, l.replaceAll(ctx, desk, marks, AfterHour), nil
}

// unmark takes the success marks of folders away, and the desks of markers that
// could bring them back.
func (l *Ledger) unmark(folders []string) error {
	entries, err := l.sink.List(TempDir)
	if err != nil && !errors.Is(err, sink.ErrNotExist) {
		return sinkError("retire", err)
	}
	for _, e := range entries {
		name := path.Join(TempDir, e.Name)
		if !strings.HasPrefix(name, deskPrefix) {
			continue
		}
		if err := l.sink.RemoveAll(name); err != nil {
			return sinkError("retire", err)
		}
	}
	for _, dir := range folders {
		if err := l.sink.Remove(SuccessPath(dir)); err != nil && !errors.Is(err, sink.ErrNotExist) {
			return sinkError("retire", err)
		}
	}
	return l.syncPresent(folders) // before any file moves
}

// syncPresent makes folders durable, but for those that are not there: a sweep
// may take retired ones away under a publisher that stood still.
func (l *Ledger) syncPresent(folders []string) error {
	for tries := 1; ; tries++ {
		var present []string
		for _, dir := range folders {
			switch _, err := l.sink.Stat(dir); {
			case err == nil:
				present = append(present, dir)
			case !errors.Is(err, sink.ErrNotExist):
				return sinkError("retire", err)
			}
		}
		err := l.sink.Sync(present...)
		if !errors.Is(err, sink.ErrNotExist) || tries == markTries {
			return sinkError("retire", err)
		}
		folders = present // one of them went in between
	}
}

// manifests lists the files of hours, per hour and folder.
func (l *Ledger) manifests(hours map[int64]bool) map[int64]map[string]*Manifest {
	byHour := map[int64]map[string]*Manifest{}
	for hour := range hours {
		h := l.fold.Hours[hour]
		byHour[hour] = map[string]*Manifest{}
		for _, dir := range h.Dirs {
			m := &Manifest{V: 1, Number: l.fold.Head, Dataset: l.fold.Dataset, Hour: hour, Files: []ManifestFile{}}
			if h.Sealed != NotSealed {
				m.Sealed = &h.Sealed
			}
			byHour[hour][dir] = m
		}
	}
	for _, v := range l.fold.All() {
		if v.Hour == nil || !hours[*v.Hour] {
			continue
		}
		dir := v.HourDir()
		m := byHour[*v.Hour][dir]
		m.Rows += v.Rows
		m.Late += v.Late
		m.Bytes += v.Bytes
		m.Files = append(m.Files, ManifestFile{
			Name: strings.TrimPrefix(v.Path, dir+"/"), Bytes: v.Bytes, SHA256: v.SHA256, Digest: v.Digest,
			Rows: v.Rows, Late: v.Late, Record: v.Number, Plan: v.Plan, Parts: v.Parts,
		})
	}
	return byHour
}

// marks are the files that mark hours, the manifest of a folder before its
// success mark.
func (l *Ledger) marks(hours map[int64]bool) ([]replacement, error) {
	byHour := l.manifests(hours)
	var marks []replacement
	for _, hour := range slices.Sorted(maps.Keys(hours)) {
		for _, dir := range slices.Sorted(maps.Keys(byHour[hour])) {
			m := byHour[hour][dir]
			data, err := Canonical(m)
			if err != nil {
				return nil, err
			}
			marks = append(marks, replacement{ManifestPath(dir), append(data, '\n')})
			if m.Sealed == nil {
				continue
			}
			if data, err = Canonical(Success{m.Number}); err != nil {
				return nil, err
			}
			marks = append(marks, replacement{SuccessPath(dir), append(data, '\n')})
		}
	}
	return marks, nil
}

// marked tells whether the hours of a record are marked as of it or later; then
// its files were published before. A record without hours tells nothing.
func (l *Ledger) marked(rec *Record) (bool, error) {
	hours := hoursOf(l.fold, rec.Number)
	if len(hours) == 0 {
		return len(rec.Files) == 0 && len(rec.Retires) == 0, nil
	}
	problems, err := l.checkMarks(hours)
	return len(problems) == 0, err
}

// checkMarks says per folder how the marks of hours differ from the fold.
func (l *Ledger) checkMarks(hours map[int64]bool) (map[string]string, error) {
	problems := map[string]string{}
	for hour, folders := range l.manifests(hours) {
		for dir, want := range folders {
			problem, err := l.checkMark(dir, want, l.fold.Hours[hour].LastTouched())
			if err != nil {
				return nil, err
			}
			if problem != "" {
				problems[dir] = problem
			}
		}
	}
	return problems, nil
}

// checkMark compares the marks of one folder with what they should be; any
// number from the hour's last change on is right.
func (l *Ledger) checkMark(dir string, want *Manifest, touched int64) (problem string, err error) {
	m, err := readManifest(l.sink, dir)
	switch {
	case errors.Is(err, sink.ErrNotExist):
		return "the manifest is missing", nil
	case err != nil && sink.ClassOf(err) != sink.Permanent:
		return "", sinkError("", err)
	case err != nil:
		return "the manifest cannot be read: " + err.Error(), nil
	case m.Number < touched || m.Number > l.fold.Head:
		return fmt.Sprintf("the manifest is as of record %d, the hour last changed with %d", m.Number, touched), nil
	}
	want.Number = m.Number
	have, err := Canonical(m)
	if err != nil {
		return "", err
	}
	if due, err := Canonical(want); err != nil {
		return "", err
	} else if string(due) != string(have) {
		return "the manifest differs from the ledger", nil
	}
	data, err := l.sink.ReadFile(SuccessPath(dir))
	if err != nil && !errors.Is(err, sink.ErrNotExist) {
		return "", sinkError("", err)
	}
	var success Success
	switch there := err == nil; {
	case there && want.Sealed == nil:
		return "_SUCCESS is there, the hour is not sealed", nil
	case !there && want.Sealed != nil:
		return "_SUCCESS is missing, the hour is sealed", nil
	case there && (decodeStrict(data, &success) != nil || success.Number != m.Number):
		return fmt.Sprintf("_SUCCESS does not name record %d as the manifest does", m.Number), nil
	}
	return "", nil
}

func readManifest(s sink.Sink, dir string) (*Manifest, error) {
	data, err := s.ReadFile(ManifestPath(dir))
	if err != nil {
		return nil, err
	}
	var m Manifest
	return &m, decodeStrict(data, &m)
}

// ReadManifest reads the manifest of an hour's folder.
func (l *Ledger) ReadManifest(dir string) (*Manifest, error) {
	m, err := readManifest(l.sink, dir)
	if errors.Is(err, sink.ErrNotExist) {
		return nil, &Error{Code: ExitNotFound, Msg: "no manifest", Err: err}
	}
	return m, sinkError("", err)
}
