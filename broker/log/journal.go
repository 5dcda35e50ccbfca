package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"sync"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

// The journal is the file epochs: one for all logs of the directory, so that
// an election of thousands of partitions costs one write and one sync. It holds
// what cannot be found again by reading the logs: epochs that wrote nothing,
// log starts within a segment, and recovery points that went back.
//
// Records have one length, so that a damaged one hides no other.
const (
	journalMagic  = "SAWEPOCH"
	journalHeader = len(journalMagic) + 4 + 4 // and uint32 version, uint32 generation
	journalRecord = 4 + 1 + 3 + 16 + 4 + 4 + 8
	// journalSlack is how much dead weight the file carries before it is
	// written anew, in bytes above twice its live records.
	journalSlack   = 64 << 10
	journalVersion = 1
)

// Kinds of journal records.
const (
	journalAssign = 1 // epoch begins at offset
	journalEnd    = 2 // log was cut to end at offset
	journalStart  = 3 // log starts at offset
)

// logKey names a log in the journal and in the checkpoint.
type logKey struct {
	topic     offsets.TopicID
	partition int32
}

// journalEntry is one record.
type journalEntry struct {
	kind   byte
	key    logKey
	epoch  offsets.Epoch
	offset offsets.Offset
}

func (e journalEntry) append(b []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, e.kind, 0, 0, 0)
	b = append(b, e.key.topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(e.key.partition))
	b = binary.BigEndian.AppendUint32(b, uint32(e.epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(e.offset))
	binary.BigEndian.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

// journalMark is a place in the journal. Each rewrite begins a generation.
type journalMark struct {
	generation uint32
	size       int64
}

// parseJournal calls fn for the sound records of a journal with the mark after
// each, and returns how many were damaged, a cut-off last one not counted.
func parseJournal(b []byte, fn func(e journalEntry, after journalMark)) (damaged int, generation uint32, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if len(b) < journalHeader || string(b[:len(journalMagic)]) != journalMagic {
		return 0, 0, errors.New("not an epoch journal")
	}
	if v := binary.BigEndian.Uint32(b[len(journalMagic):]); v != journalVersion {
		return 0, 0, fmt.Errorf("epoch journal version %d, this program reads %d", v, journalVersion)
	}
	generation = binary.BigEndian.Uint32(b[len(journalMagic)+4:])
	for pos := journalHeader; pos+journalRecord <= len(b); pos += journalRecord {
		r := b[pos : pos+journalRecord]
		if binary.BigEndian.Uint32(r) != crc32.Checksum(r[4:], castagnoli) {
			damaged++
			continue
		}
		e := journalEntry{kind: r[4]}
		copy(e.key.topic[:], r[8:24])
		e.key.partition = int32(binary.BigEndian.Uint32(r[24:]))
		e.epoch = offsets.Epoch(binary.BigEndian.Uint32(r[28:]))
		e.offset = offsets.Offset(binary.BigEndian.Uint64(r[32:]))
		fn(e, journalMark{generation, int64(pos + journalRecord)})
	}
	return damaged, generation, nil
}

// remembered is what the journal tells of one log.
type remembered struct {
	epochs epochs
	start  offsets.Offset
	cut    offsets.Offset // lowest end it was cut to since the checkpoint, or −1
	seen   bool           // the journal has a record of the log
}

// add applies a record; late tells that it is younger than the checkpoint.
func (r *remembered) add(e journalEntry, late bool) {
	switch e.kind {
	case journalAssign:
		r.epochs, _ = r.epochs.assign(e.epoch, e.offset)
	case journalEnd:
		r.epochs = r.epochs.cutEnd(e.offset)
		if late && (r.cut < 0 || e.offset < r.cut) {
			r.cut = e.offset
		}
		r.start = min(r.start, e.offset)
	case journalStart:
		r.start = e.offset
		r.epochs = r.epochs.cutStart(e.offset)
	}
}

// journal writes the file.
type journal struct {
	fs   vfs.FS
	path string

	mu       sync.Mutex
	file     vfs.File
	mark     journalMark // its end
	late     bool        // not all of it is synced
	reserved int64       // bytes of the file for which there is disk space
	buf      []byte
}

// openJournal reads the file and opens it for more. checkpoint is the mark the
// checkpoint was taken at.
func openJournal(fs vfs.FS, dir string, checkpoint journalMark) (_ *journal, found map[logKey]*remembered, damaged int, err error) {
	j := &journal{fs: fs, path: path.Join(dir, epochsName), mark: checkpoint}
	found = map[logKey]*remembered{}
	b, err := vfs.ReadFile(fs, j.path)
	if errors.Is(err, os.ErrNotExist) {
		if checkpoint.generation > 0 {
			damaged = 1 // it was there
		}
		return j, found, damaged, j.rewrite(nil)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	damaged, j.mark.generation, err = parseJournal(b, func(e journalEntry, after journalMark) {
		if found[e.key] == nil {
			found[e.key] = &remembered{cut: -1, seen: true}
		}
		found[e.key].add(e, after.generation != checkpoint.generation || after.size > checkpoint.size)
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("%s: %w", j.path, err)
	}
	if len(b) < journalHeader {
		j.mark = checkpoint // its generation must not come again
		return j, found, 1, j.rewrite(nil)
	}
	j.mark.size = int64(journalHeader + (len(b)-journalHeader)/journalRecord*journalRecord)
	j.file, err = fs.OpenFile(j.path, os.O_RDWR, 0o644)
	return j, found, damaged, err
}

// write appends records, synced when they could not be found again otherwise.
func (j *journal) write(sync bool, entries ...journalEntry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = j.buf[:0]
	for _, e := range entries {
		j.buf = e.append(j.buf)
	}
	j.reserve(int64(len(j.buf)))
	n, err := j.file.WriteAt(j.buf, j.mark.size)
	if err != nil {
		return roomless(err)
	}
	j.mark.size += int64(n)
	j.late = true
	if sync {
		return j.syncHeld()
	}
	return nil
}

// journalReserve is how much disk space is reserved ahead, in bytes: deleting,
// which is what makes room on a full disk, writes here first.
const journalReserve = 64 << 10

// reserve keeps some space ahead of the end. A full disk has what was reserved
// before.
func (j *journal) reserve(n int64) {
	if j.mark.size+n+journalReserve/2 <= j.reserved {
		return
	}
	if err := j.file.Allocate(j.mark.size, n+journalReserve); err == nil {
		j.reserved = j.mark.size + n + journalReserve
	}
}

// sync makes what was written so far survive: before a recovery point passes
// the batches it could be found again in.
func (j *journal) sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncHeld()
}

func (j *journal) syncHeld() error {
	if !j.late {
		return nil
	}
	j.late = false
	return j.file.Sync()
}

// rewrite replaces the file by these records and goes on behind them.
func (j *journal) rewrite(entries []journalEntry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := append(make([]byte, 0, journalHeader+len(entries)*journalRecord), journalMagic...)
	b = binary.BigEndian.AppendUint32(b, journalVersion)
	b = binary.BigEndian.AppendUint32(b, j.mark.generation+1)
	for _, e := range entries {
		b = e.append(b)
	}
	if err := vfs.Replace(j.fs, j.path, b); err != nil {
		return err
	}
	old := j.file
	f, err := j.fs.OpenFile(j.path, os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	j.reserved = 0
	j.file, j.mark, j.late = f, journalMark{j.mark.generation + 1, int64(len(b))}, false
	if old != nil {
		return old.Close()
	}
	return nil
}

// heavy tells whether the file is much larger than its live records.
func (j *journal) heavy(live int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mark.size > int64(2*live*journalRecord+journalSlack)
}

// end is the mark behind the last record.
func (j *journal) end() journalMark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mark
}

func (j *journal) Close() error { return j.file.Close() }

var _ io.Closer = (*journal)(nil)
