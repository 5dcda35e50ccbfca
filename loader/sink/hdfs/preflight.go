package hdfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// Flags of a status by which a NameNode tells what holds for a folder and all
// below it (HdfsFileStatusProto.Flags); before Hadoop 3.1 they were bits of the
// permissions (FsPermissionExtension).
const (
	flagEncrypted    = 1 << 1
	flagErasureCoded = 1 << 2
	modeEncrypted    = 1 << 13
	modeErasureCoded = 1 << 14
)

// policies are the names of Hadoop's own policies, which come without
// (ErasureCodeConstants).
var policies = map[uint32]string{
	1: "RS-6-3-1024k", 2: "RS-3-2-1024k", 3: "RS-LEGACY-6-3-1024k", 4: "XOR-2-1-1024k", 5: "RS-10-4-1024k",
}

// fit refuses a root that the client library can't write to, and the way it
// couldn't is no error of its own: in an encryption zone it would store bytes
// as they are, which all readers then decrypt; in an erasure-coded folder it
// would write a striped file as if it were replicated. What holds for a root
// that isn't there yet holds for the folder it will be made in.
func fit(stat func(string) (os.FileInfo, error), dir string) error {
	for {
		st, err := stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != "/" {
			dir = path.Dir(dir)
			continue
		}
		if err != nil {
			return err
		}
		return unfit(dir, st)
	}
}

// unfit says why files can't be kept in a folder, nil when they can.
func unfit(dir string, st os.FileInfo) error {
	if !st.IsDir() {
		return refuse("%s is a file, where a folder is needed: name another root", dir)
	}
	status, ok := st.Sys().(*hdfs.FileStatus)
	if !ok {
		return nil
	}
	flags, mode := status.GetFlags(), status.GetPermission().GetPerm()
	if flags&flagEncrypted != 0 || mode&modeEncrypted != 0 || status.GetFileEncryptionInfo() != nil {
		return refuse("%s is in an encryption zone, whose files this client can't encrypt: name a root outside of it; hdfs crypto -listZones lists them", dir)
	}
	if flags&flagErasureCoded != 0 || mode&modeErasureCoded != 0 {
		policy := cmp.Or(status.GetEcPolicy().GetName(), policies[status.GetEcPolicy().GetId()], "one it doesn't name")
		return refuse("%s is erasure-coded (policy %s), and this client writes replicated files only: hdfs ec -setPolicy -replicate -path %s, or name another root", dir, policy, dir)
	}
	return nil
}

// refusal is a sink.ErrRefused that says why.
type refusal struct{ text string }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

func (e *refusal) Error() string { return e.text }

func (e *refusal) Is(target error) bool { return target == sink.ErrRefused }
