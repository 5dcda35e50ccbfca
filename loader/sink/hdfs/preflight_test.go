package hdfs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// status is what a NameNode says of a folder.
type status struct {
	flags uint32
	file  bool
}

func (s status) Name() string       { return "" }
func (s status) Size() int64        { return 0 }
func (s status) ModTime() time.Time { return time.Time{} }
func (s status) IsDir() bool        { return !s.file }
func (s status) Mode() os.FileMode  { return 0o755 }
func (s status) Sys() any           { return &hdfs.FileStatus{Flags: new(s.flags)} }

func TestFoldersThatFilesCannotBeKeptInAreRefused(t *testing.T) {
	const acl, snapshots = 1, 8
	for _, c := range []struct {
		what    string
		folders map[string]status
		want    string // of the refusal; "" = none
	}{
		{"a plain folder", map[string]status{"/": {}, "/a": {}, "/a/b": {flags: acl | snapshots}}, ""},
		{"a root that isn't there", map[string]status{"/": {}}, ""},
		{"erasure-coded", map[string]status{"/": {}, "/a": {}, "/a/b": {flags: flagErasureCoded}}, "/a/b is erasure-coded"},
		{"below an erasure-coded one", map[string]status{"/": {}, "/a": {flags: flagErasureCoded | acl}}, "/a is erasure-coded"},
		{"the whole store", map[string]status{"/": {flags: flagErasureCoded}}, "/ is erasure-coded"},
		{"encrypted", map[string]status{"/": {}, "/a": {}, "/a/b": {flags: flagEncrypted}}, "/a/b is in an encryption zone"},
		{"below an encrypted one", map[string]status{"/": {}, "/a": {flags: flagEncrypted}}, "/a is in an encryption zone"},
		{"encrypted and erasure-coded", map[string]status{"/": {flags: flagEncrypted | flagErasureCoded}}, "encryption zone"},
		{"a file", map[string]status{"/": {}, "/a": {}, "/a/b": {file: true}}, "/a/b is a file"},
	} {
		err := fit(func(name string) (os.FileInfo, error) {
			if st, ok := c.folders[name]; ok {
				return st, nil
			}
			return nil, &os.PathError{Op: "stat", Path: name, Err: os.ErrNotExist}
		}, "/a/b")
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (!errors.Is(err, sink.ErrRefused) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want a refusal with %q", c.what, err, c.want)
		case c.want != "" && outcomeOf(err) != answered:
			t.Errorf("%s: a refusal would be repeated", c.what)
		}
	}
	if err := fit(func(string) (os.FileInfo, error) { return nil, fs.ErrPermission }, "/a/b"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a folder that may not be looked at: %v", err)
	}
}

// exception is what a NameNode answers.
type exception struct{ name, message string }

func (e exception) Error() string     { return "call failed (" + e.name + ")" }
func (e exception) Method() string    { return "call" }
func (e exception) Desc() string      { return "ERROR_APPLICATION" }
func (e exception) Exception() string { return e.name }
func (e exception) Message() string   { return e.message }

func TestExceptionsSayWhatMayBeDone(t *testing.T) {
	const protocol, namenode, ipc = "org.apache.hadoop.hdfs.protocol.", "org.apache.hadoop.hdfs.server.namenode.", "org.apache.hadoop.ipc."
	for _, c := range []struct {
		name, message string
		want          outcome
		refused       bool
	}{
		{ipc + "StandbyException", "Operation category WRITE is not supported in state standby", refused, false},
		{ipc + "RetriableException", namenode + "SafeModeException: Cannot create file", refused, false},
		{"org.apache.hadoop.ipc.RemoteException", namenode + "SafeModeException: Cannot create file/a. Name node is in safe mode.", refused, false},
		{namenode + "SafeModeException", "Name node is in safe mode.", refused, false},
		{protocol + "DSQuotaExceededException", "The DiskSpace quota of /q is exceeded: quota = 1 B but diskspace consumed = 2 B\n\tat x", answered, true},
		{protocol + "NSQuotaExceededException", "The NameSpace quota (directories and files) of directory /q is exceeded: quota=2 file count=3", answered, true},
		{protocol + "QuotaByStorageTypeExceededException", "Quota by storage type : SSD on path : /q is exceeded.", answered, true},
		{protocol + "FSLimitException$PathComponentTooLongException", "The maximum path component name limit of x in directory / is exceeded: limit=255 length=256", answered, true},
		{"java.io.IOException", "rename destination directory is not empty: /a", answered, false},
		{"java.io.IOException", "File /a could only be written to 0 of the 1 minReplication nodes. There are 0 datanode(s) running", refused, false},
	} {
		e := exception{c.name, c.message}
		if got := outcomeOf(e); got != c.want {
			t.Errorf("%s: outcome %v, want %v", c.name, got, c.want)
		}
		err := classify("create", "a", &os.PathError{Op: "create", Path: "/q/a", Err: e}, sink.Permanent)
		if errors.Is(err, sink.ErrRefused) != c.refused {
			t.Errorf("%s: refused is %v, want %v", c.name, !c.refused, c.refused)
		}
		if line := firstLine(c.message); !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %q doesn't say %q", c.name, err, line)
		}
	}
}
