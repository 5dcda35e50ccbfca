package log

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// Names in the data directory.
const (
	metaName       = "meta.properties"
	lockName       = "lock"
	runningName    = "running"
	epochsName     = "epochs"
	checkpointName = "recovery-points"
	ballastName    = "ballast"
)

// Names in the folder of a log.
const (
	partitionName  = "partition.metadata"
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	snapshotSuffix = ".snapshot"
	cutSuffix      = ".cut"
)

// Suffixes of folders that are no longer logs.
const (
	straySuffix  = "-stray"
	deleteSuffix = "-delete"
)

// offsetName is a file name that begins with an offset.
func offsetName(o offsets.Offset, suffix string) string {
	return fmt.Sprintf("%020d%s", int64(o), suffix)
}

// parseOffsetName reads the offset of a name with that suffix.
func parseOffsetName(name, suffix string) (offsets.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	o, err := strconv.ParseInt(digits, 10, 64)
	return offsets.Offset(o), err == nil && o >= 0
}

// folderName is the folder of a log.
func folderName(tp offsets.TopicPartition) string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// parseFolderName reads a folder name; the topic may hold dashes itself.
func parseFolderName(name string) (offsets.TopicPartition, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return offsets.TopicPartition{}, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] {
		return offsets.TopicPartition{}, false
	}
	return offsets.TopicPartition{Topic: name[:i], Partition: int32(n)}, true
}

// asideName is the name a folder gets when it is put aside at a time.
func asideName(folder string, unixMs int64, suffix string) string {
	return fmt.Sprintf("%s.%d%s", folder, unixMs, suffix)
}

// parseAsideName reads the time out of asideName.
func parseAsideName(name, suffix string) (unixMs int64, ok bool) {
	rest, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	i := strings.LastIndexByte(rest, '.')
	ms, err := strconv.ParseInt(rest[i+1:], 10, 64)
	return ms, i > 0 && err == nil
}

// file is the path of a file in the log's folder.
func (l *Log) file(name string) string { return path.Join(l.path, name) }
