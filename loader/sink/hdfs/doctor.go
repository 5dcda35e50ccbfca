package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strings"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check  string
	Detail string
	Advice string // what to do about Err
	Err    error  // nil = it is well
}

// UsageError is of a root that doesn't say whom to ask.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// maxSkew is how far apart clocks may be; the KDC and the NameNodes refuse
// tickets from 5 minutes on.
const maxSkew = time.Minute

// examination looks at one root, step by step.
type examination struct {
	ctx    context.Context
	target *target
	sink   *Sink  // on folder
	folder string // the root, or what there is of the way to it
	list   []Finding
}

// Examine looks at all a load into the root needs, one thing after the other,
// and stops where nothing further can be told. It writes a few small files into
// the root, or into the folder the root would be made in, and takes them away.
// It ends with ctx.
func Examine(ctx context.Context, root string, access sink.Access) []Finding {
	e := &examination{ctx: ctx}
	steps := []struct {
		check  string
		advice string
		look   func() (string, error)
	}{
		{"resolve", "name the host in the root, its NameNodes in the job, or Hadoop's configuration by $HADOOP_CONF_DIR", func() (string, error) { return e.resolve(root, access) }},
		{"login", "klist -kt KEYTAB tells the principals of a keytab; kinit gets a ticket; clocks may differ by 5 minutes", e.login},
		{"connect", "is the NameNode up, and its RPC port reachable from here? hdfs haadmin -getAllServiceState", e.connect},
		{"folder", "", e.look},
		{"safe mode", "hdfs dfsadmin -safemode get; it ends by itself once enough DataNodes have reported", e.safeMode},
		{"write, read, rename, put, delete", "the user needs to write there; are DataNodes reachable from here? dfs.client.use.datanode.hostname has them called by name", e.write},
		{"clocks", "clocks differ: run an NTP client on both sides", e.clocks},
		{"store", "missing blocks: hdfs fsck / -list-corruptfileblocks", e.store},
		{"quota", "hdfs dfs -count -q FOLDER tells it, hdfs dfsadmin -setSpaceQuota and -setQuota raise it", e.quota},
	}
	defer e.close()
	for _, s := range steps {
		if s.check == "login" && !e.target.kerberos || s.check == "connect" && e.connectAll(s.advice) {
			continue
		}
		detail, err := s.look()
		f := Finding{Check: s.check, Detail: detail, Err: err}
		if err != nil {
			f.Advice = s.advice
		}
		e.list = append(e.list, f)
		if err != nil && s.check != "clocks" && s.check != "store" {
			break
		}
	}
	return e.list
}

func (e *examination) close() {
	if e.sink != nil {
		_ = e.sink.Close() // whatever it was good for has been told
	}
}

func (e *examination) resolve(root string, access sink.Access) (string, error) {
	t, err := targetOf(root, access)
	if err != nil {
		return "", &UsageError{err}
	}
	e.target = t
	as := "user " + t.user
	if t.kerberos {
		as = "by Kerberos"
	}
	return fmt.Sprintf("%s at %s (%s), %s", t.dir, strings.Join(t.namenodes, ", "), t.origin, as), nil
}

func (e *examination) login() (string, error) {
	l, err := e.target.login(e.ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, ticket until %s, NameNodes are %s", l.principal, l.expires().UTC().Format(time.RFC3339), e.target.spn), nil
}

// connectAll tells of each NameNode whether it is there; true = one is.
func (e *examination) connectAll(advice string) bool {
	found := false
	for _, addr := range e.target.namenodes {
		f := Finding{Check: "connect " + addr}
		start := time.Now()
		conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(e.ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close() // only the dial was asked for
			found = true
			f.Detail = "connected in " + time.Since(start).Round(10*time.Microsecond).String()
		} else {
			f.Err, f.Advice = &sink.Error{Op: "dial", Path: addr, Class: sink.Retryable, Err: err}, advice
		}
		e.list = append(e.list, f)
	}
	return found
}

// connect fails where no NameNode is there.
func (e *examination) connect() (string, error) {
	return "", &sink.Error{Op: "connect", Path: e.target.service, Class: sink.Retryable, Err: errors.New("no NameNode is there")}
}

// look finds the folder, and whether files can be kept in it.
func (e *examination) look() (string, error) {
	at := *e.target
	e.folder = at.dir
	for {
		limits := usual
		limits.patient, limits.call = 5*time.Second, 10*time.Second // a person waits
		e.close()
		e.sink = newSink(e.ctx, &at, limits)
		st, err := e.sink.Stat("")
		if errors.Is(err, fs.ErrNotExist) && at.dir != "/" {
			at.dir = path.Dir(at.dir)
			continue
		}
		if err != nil {
			return "", err
		}
		detail := at.dir + " is there"
		if at.dir != e.folder {
			detail = e.folder + " isn't there yet; " + detail
		}
		e.folder = at.dir
		return detail + ", neither erasure-coded nor encrypted" + map[bool]string{false: ", but a file"}[st.Dir], nil
	}
}

// probe is the folder that is made to try what a load does.
const probe = ".sawlog-doctor"

func (e *examination) safeMode() (string, error) {
	err := e.sink.MkdirAll(probe)
	if err != nil && strings.Contains(err.Error(), "afe mode") {
		return "", err
	}
	return "off", nil
}

// write does what a load does with its files.
func (e *examination) write() (detail string, err error) {
	s := e.sink
	start := time.Now()
	defer func() {
		if removed := s.RemoveAll(probe); err == nil {
			err = removed
		}
	}()
	const body, slot = "a few bytes", probe + "/slot/commit.json"
	if err := s.MkdirAll(probe + "/a"); err != nil {
		return "", err
	}
	if err := sink.Write(s, probe+"/a/part", []byte(body)); err != nil {
		return "", err
	}
	if err := s.Rename(probe+"/a/part", probe+"/a/file"); err != nil {
		return "", err
	}
	if got, err := s.ReadFile(probe + "/a/file"); err != nil || string(got) != body {
		return "", errors.Join(err, fmt.Errorf("%d of the %d bytes that were written are read back", len(got), len(body)))
	}
	if err := s.PutIfAbsent(slot, []byte(body)); err != nil {
		return "", err
	}
	if err := s.PutIfAbsent(slot, []byte("another")); !errors.Is(err, sink.ErrExist) {
		return "", fmt.Errorf("a folder that holds a file was replaced by a rename (%v): commits would not be safe on this store", err)
	}
	return "all in " + time.Since(start).Round(time.Millisecond).String(), nil
}

// clocks holds a time the NameNode gives against this machine's.
func (e *examination) clocks() (string, error) {
	before := time.Now()
	if err := e.sink.MkdirAll(probe); err != nil {
		return "", err
	}
	st, err := e.sink.Stat(probe)
	err = errors.Join(err, e.sink.RemoveAll(probe))
	if err != nil {
		return "", err
	}
	skew := max(before.Sub(st.ModTime), time.Until(st.ModTime)).Round(time.Millisecond)
	if skew > maxSkew {
		return "", fmt.Errorf("the NameNode's clock and this machine's are %v apart", skew)
	}
	return fmt.Sprintf("within %v of the NameNode's", max(skew, time.Millisecond)), nil
}

// store tells how files are kept, and what room there is.
func (e *examination) store() (detail string, err error) {
	err = e.sink.ask("store", "", func(c *hdfs.Client) error {
		d, err := c.ServerDefaults()
		if err != nil {
			return err
		}
		st, err := c.StatFs()
		if err != nil {
			return err
		}
		replication, block := e.target.replication, e.target.blockSize
		if replication == 0 {
			replication = d.Replication
		}
		if block == 0 {
			block = d.BlockSize
		}
		detail = fmt.Sprintf("replication %d, blocks of %d bytes, %d of %d bytes free, %d blocks under-replicated", replication, block, st.Remaining, st.Capacity, st.UnderReplicated)
		if st.MissingBlocks > 0 {
			return refuse("%d blocks have no copy left; %s", st.MissingBlocks, detail)
		}
		return nil
	})
	return detail, err
}

// quota tells what is left of the folder's own quotas; those of folders above it
// are met by the files that were written.
func (e *examination) quota() (detail string, err error) {
	err = e.sink.ask("quota", "", func(c *hdfs.Client) error {
		sum, err := c.GetContentSummary(e.folder)
		if err != nil {
			return err
		}
		d, err := c.ServerDefaults()
		if err != nil {
			return err
		}
		detail, err = quotaLeft(e.folder, sum, int64(d.Replication)*d.BlockSize)
		return err
	})
	return detail, err
}

// usage is what a content summary tells.
type usage interface {
	NameQuota() int
	SpaceQuota() int64
	FileCount() int
	DirectoryCount() int
	SizeAfterReplication() int64
}

// leastNames is how many files and folders a small load makes.
const leastNames = 100

// quotaLeft is what is left of a folder's quotas. A block counts with its full
// size, replicated, for as long as it is written.
func quotaLeft(folder string, u usage, block int64) (string, error) {
	names, space := "no limit of names", "no limit of bytes"
	if q := u.NameQuota(); q > 0 && int64(q) < 1<<62 {
		left := q - u.FileCount() - u.DirectoryCount()
		names = fmt.Sprintf("%d of %d names left", left, q)
		if left < leastNames {
			return "", refuse("%s: %s: a load makes a file, a folder and its ledger's records at the least", folder, names)
		}
	}
	if q := u.SpaceQuota(); q > 0 && q < 1<<62 {
		left := q - u.SizeAfterReplication()
		space = fmt.Sprintf("%d of %d bytes left", left, q)
		if left < block {
			return "", refuse("%s: %s, replicas counted: a file needs %d while its block is written", folder, space, block)
		}
	}
	return names + ", " + space, nil
}
