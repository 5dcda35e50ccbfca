package hdfs

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// Create makes a new file. What is written is kept on this machine until Close
// sends it: the library has no way on when a DataNode fails in the middle of a
// file, so the file is then sent anew.
func (s *Sink) Create(name string) (io.WriteCloser, error) {
	if err := sink.Clean(name); err != nil {
		return nil, err
	}
	s.enter() // until Close: the file has a lease
	out, err := s.create(name)
	if err != nil {
		s.leave()
		return nil, err
	}
	return &writer{sink: s, name: name, out: out}, nil
}

// Upload copies what src begins with to a new file.
func (s *Sink) Upload(src io.ReaderAt, size int64, name string) error {
	if err := sink.Clean(name); err != nil {
		return err
	}
	if err := reaches(src, size); err != nil {
		return classify("upload", name, err, sink.Permanent)
	}
	s.enter()
	defer s.leave()
	out, err := s.create(name)
	if err != nil {
		return err
	}
	return s.send(out, name, src, size)
}

// reaches tells whether there are so many bytes: what was cut short is not to be
// sent as if it were whole.
func reaches(src io.ReaderAt, size int64) error {
	if size == 0 {
		return nil
	}
	n, err := src.ReadAt(make([]byte, 1), size-1)
	switch {
	case n == 1:
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// bare drops the operation and path the system put before the cause.
func bare(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// create claims a name. A lost answer leaves it open whose the file is; one
// without bytes is taken for ours.
func (s *Sink) create(name string) (*hdfs.FileWriter, error) {
	var out *hdfs.FileWriter
	err := s.change("create", name, func(c *hdfs.Client) (err error) {
		out, err = s.openNew(c, s.at(name))
		return err
	}, func(c *hdfs.Client) (bool, error) {
		st, err := c.Stat(s.at(name))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		out = nil // there, but not ours to write to: it is replaced by send
		return err == nil && !st.IsDir() && st.Size() == 0, err
	})
	return out, err
}

// openNew makes a file that wasn't there.
func (s *Sink) openNew(c *hdfs.Client, abs string) (*hdfs.FileWriter, error) {
	replication, block := s.target.replication, s.target.blockSize
	if replication == 0 || block == 0 {
		d, err := c.ServerDefaults()
		if err != nil {
			return nil, err
		}
		replication, block = cmp.Or(replication, d.Replication), cmp.Or(block, d.BlockSize)
	}
	return c.CreateFile(abs, replication, block, fileMode)
}

// sendTries is how often a file is sent at least, however long that takes; then
// it is sent anew until the sink's patience is at its end. The NameNode may choose
// the same DataNodes again until it knows that one is gone, and the library can't
// name those it should leave out: where there are no more of them than copies of
// a block, each try meets the one that is gone.
const sendTries = 10

// errPipeline is why DataNodes that the NameNode chose don't take a block.
var errPipeline = errors.New("the DataNodes that the NameNode names don't take it " +
	"(it names one that is gone until it misses its heartbeats, with Hadoop's defaults for 10.5 minutes, or for 30 s with dfs.namenode.avoid.write.stale.datanode=true)")

// send writes a file to the name that create claimed. The first try writes to
// out; each later one writes to a name of its own and renames it into place: a
// request that was lost with its connection may yet be carried out, and must not
// meet the file that counts.
func (s *Sink) send(out *hdfs.FileWriter, name string, src io.ReaderAt, size int64) error {
	s.enter()
	defer s.leave()
	wait := s.patience()
	part := ""
	var err error
	var failing time.Time // since when
	for try := 1; ; try++ {
		if out != nil {
			if err = s.fill(out, cmp.Or(part, name), io.NewSectionReader(src, 0, size), size); err == nil {
				break
			}
			if failing.IsZero() {
				failing = time.Now()
			}
			spent := try >= sendTries && time.Since(failing) > s.limits.patient
			if outcomeOf(err) == answered && !isUnleased(err) || spent || !wait.again() {
				break
			}
		}
		s.tidy(part)
		part = path.Join(path.Dir(name), "."+path.Base(name)+"."+nonce())
		if out, err = s.create(part); err != nil {
			break
		}
	}
	if err == nil && part != "" {
		err = s.Rename(part, name)
	}
	if err == nil {
		return nil
	}
	if outcomeOf(err) != unknown || errors.Is(err, errPipeline) { // the NameNode answers
		s.tidy(part)
		s.tidy(name)
	}
	if outcomeOf(err) == answered && !isUnleased(err) {
		return classify("write", name, err, sink.Permanent)
	}
	return s.spent("write", name, err, sink.Retryable)
}

// tidy takes away half a file, unless that fails: what stays is in a folder that
// is swept.
func (s *Sink) tidy(name string) {
	if name == "" {
		return
	}
	if c, err := s.connect(); err == nil {
		_ = c.RemoveAll(s.at(name))
	}
}

// fill writes all bytes to a file that was just made, and closes it.
func (s *Sink) fill(out *hdfs.FileWriter, name string, src io.Reader, size int64) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{out}, src, make([]byte, min(max(size, 1), 1<<20)))
	if err != nil {
		_ = out.Close() // ends its connection; the file is sent anew
		return ofDataNode(err)
	}
	return s.finish(out, name, size)
}

// ofDataNode tells an error of DataNodes from what the NameNode said, which has
// the path with it.
func ofDataNode(err error) error {
	var named *os.PathError
	if errors.As(err, &named) || outcomeOf(err) != unknown {
		return err
	}
	return fmt.Errorf("%w: %w", errPipeline, err)
}

// finish closes a file until the NameNode says that it is whole: that enough
// DataNodes have told it so may take a while.
//
// Where that question or its answer was lost, or the NameNode could not take it,
// the library asks again without saying how long the last block is. Was the file closed, the NameNode answers that nobody
// writes it, and its length tells. Was it not, it can never be: then it is sent
// anew, after a while in which its DataNodes may still be heard of.
func (s *Sink) finish(out *hdfs.FileWriter, name string, size int64) error {
	wait := s.patience()
	lost := false
	for {
		err := out.Close()
		if err == nil {
			return nil
		}
		outcome := outcomeOf(err)
		var asked *os.PathError // only the last of Close's questions has a path in its error
		switch {
		case hdfs.IsErrReplicating(err):
			outcome = refused
		case isUnleased(err):
			st, look := s.Stat(name)
			if look == nil && st.Size == size {
				return nil
			}
			return err
		case outcome != answered && !lost && errors.As(err, &asked):
			lost = true
			wait.end = time.Now().Add(s.limits.doubt)
		}
		if outcome == answered || !wait.wait() {
			return err
		}
	}
}

// writer keeps what is written until Close.
type writer struct {
	sink *Sink
	name string
	out  *hdfs.FileWriter
	buf  bytes.Buffer
	disk *os.File // instead of buf, when it is more than kept
	size int64
}

// kept is how many bytes of a file are kept in memory, more are on local disk.
const kept = 1 << 20

func (w *writer) Write(p []byte) (int, error) {
	if w.disk == nil && w.size+int64(len(p)) > kept && w.size > 0 {
		f, err := sink.Scratch("")
		if err != nil {
			return 0, classify("write", w.name, bare(err), sink.Retryable)
		}
		w.disk = f
		if _, err := f.Write(w.buf.Bytes()); err != nil {
			return 0, classify("write", w.name, bare(err), sink.Retryable)
		}
		w.buf = bytes.Buffer{}
	}
	to := io.Writer(&w.buf)
	if w.disk != nil {
		to = w.disk
	}
	n, err := to.Write(p)
	w.size += int64(n)
	return n, classify("write", w.name, err, sink.Retryable)
}

func (w *writer) Close() error {
	defer w.sink.leave()
	src := io.ReaderAt(bytes.NewReader(w.buf.Bytes()))
	if w.disk != nil {
		src = w.disk
		defer func() { _ = w.disk.Close() }() // its bytes are elsewhere by then
	}
	return w.sink.send(w.out, w.name, src, w.size)
}

// nonce tells names apart.
func nonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
