package loader

import (
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"sawlog/offsets"
)

// Layout of a data set, every name in it; paths are relative to the root.
//
//	dt=2026-11-29/hr=14/                    the folder of an hour, by the plan's bucket rule
//	  TOPIC-TTTTTTTT-PPPPP-START-END-PLANPLAN.parquet   a split of one range
//	  merged-PLANPLAN-SSSSS.parquet                     a split of several
//	                  … .arrow, .jsonl, .jsonl.zst, .jsonl.gz   in other formats
//	  FIELD=VALUE/                                      files of one value of a field (folder.go)
//	  _manifest.json  _SUCCESS
//	_sawlog/ledger/NNNNNNNNNNNN/commit.json
//	_sawlog/checkpoints/NNNNNNNNNNNN.json
//	_sawlog/plans/PLANPLANPLANPLAN/plan.json  files-SHA256.jsonl
//	_sawlog/stage/PLANPLANPLANPLAN/SPLIT/ATTEMPT/NAME.part  result.json  error.json
//	_sawlog/stage/PLANPLANPLANPLAN/plan-PLANPLANPLANPLAN.json  tasks-SHA256SHA256SHA2.jsonl
//	_sawlog/quarantine/PLANPLAN-SSSSS.quarantine
//	_sawlog/retired/N/PATH                  what record N retired; for a week (sweep.go)
//	_sawlog/tmp/NAME                        files on their way to another name
//	_sawlog/tmp/marks-NAME/NAME             manifests and success marks on their way
//
// All .json files hold one canonical JSON value (canonical.go) and a newline.
//
//	commit.json     Record (record.go): chained by prev = sha256 of the file before
//	                it; sum = sha256 of its canonical JSON without sum
//	files-….jsonl   File (result.go), one a line; named by its sha256; only where
//	                a record has more than 1,000 files
//	checkpoint      checkpointFile (checkpoint.go): the fold, with a sum of its own;
//	                a cache
//	plan.json       Plan (plan.go): its id is the start of the sha256 of the value
//	result.json     Result (result.go)
//	error.json      ExecError (execline.go): why an attempt on a cluster failed
//	plan-….json     Plan: what tasks on a cluster read, without a newline (tasklist.go)
//	tasks-….jsonl   ExecSpec (exec.go), one a line: tasks as some engines hand them out
//	_manifest.json  Manifest, _SUCCESS: Success (mark.go)
const (
	SystemDir     = "_sawlog"
	LedgerDir     = SystemDir + "/ledger"
	CheckpointDir = SystemDir + "/checkpoints"
	PlansDir      = SystemDir + "/plans"
	StagesDir     = SystemDir + "/stage"
	QuarantineDir = SystemDir + "/quarantine"
	RetiredDir    = SystemDir + "/retired"
	TempDir       = SystemDir + "/tmp"
	deskPrefix    = TempDir + "/marks-"

	commitName   = "commit.json"
	planName     = "plan.json"
	resultName   = "result.json"
	errorName    = "error.json"
	manifestName = "_manifest.json"
	successName  = "_SUCCESS"

	// StageSuffix ends the names of staged files, so that no reader takes one
	// for data.
	StageSuffix      = ".part"
	quarantineSuffix = ".quarantine"

	maxTopicBytes = 100 // of a topic's name in a file's name
	maxStageName  = 200 // bytes, without the suffix; stores add something while they write
)

// RecordPath is the file of ledger record n.
func RecordPath(n int64) string { return fmt.Sprintf("%s/%012d/%s", LedgerDir, n, commitName) }

// CheckpointPath is the file of the fold of records 0..n.
func CheckpointPath(n int64) string { return fmt.Sprintf("%s/%012d.json", CheckpointDir, n) }

// PlanPath is the file of a plan.
func PlanPath(planID string) string { return path.Join(PlansDir, planID, planName) }

// FilesPath is the list of a commit's files, when it is too long for the record.
func FilesPath(planID, sha string) string {
	return path.Join(PlansDir, planID, "files-"+sha+".jsonl")
}

// StageDir holds the attempts of one split.
func StageDir(planID string, split int) string {
	return path.Join(StagesDir, planID, strconv.Itoa(split))
}

// AttemptDir holds the files of one attempt.
func AttemptDir(planID string, split int, attempt string) string {
	return path.Join(StageDir(planID, split), attempt)
}

// ResultPath is what an attempt writes last.
func ResultPath(attemptDir string) string { return path.Join(attemptDir, resultName) }

// StagePath is where an attempt puts the file that is to become final: the
// final path with its slashes made flat, or where that is too long, its sha256.
func StagePath(attemptDir, final string) string {
	name := strings.ReplaceAll(final, "/", "+")
	if len(name) > maxStageName {
		name = sum([]byte(final))
	}
	return path.Join(attemptDir, name+StageSuffix)
}

// QuarantinePath is the final path of a split's bad records.
func QuarantinePath(planID string, split int) string {
	return fmt.Sprintf("%s/%s-%05d%s", QuarantineDir, short(planID), split, quarantineSuffix)
}

// FinalPath is the final path of a split's file in the folder of an hour. A
// split carried over from an earlier revision keeps the names it was staged
// with, so pass the id under which the attempt runs: s.StagePlan(planID).
func FinalPath(hourDir, planID, extension string, s *Split) string {
	name := fmt.Sprintf("merged-%s-%05d", short(planID), s.Index)
	if len(s.Ranges) == 1 {
		r := s.Ranges[0]
		name = fmt.Sprintf("%s-%s-%05d-%020d-%020d-%s", fileTopic(r.Topic), r.TopicID.Hex()[:8],
			r.Partition, r.Start, r.End, short(planID))
	}
	return path.Join(hourDir, name+"."+extension)
}

// StagePlan is the id of the plan a split's files are named and staged by: the
// plan's own, or that of the revision it was carried over from.
func (s *Split) StagePlan(planID string) string {
	if s.Stage != "" {
		return s.Stage
	}
	return planID
}

// short is the part of a plan id that file names carry.
func short(planID string) string {
	if len(planID) > 8 {
		return planID[:8]
	}
	return planID
}

// fileTopic is a topic's name as file names carry it: readers skip files whose
// name starts with "_" or ".", so such a topic gets a letter before it.
func fileTopic(topic string) string {
	topic = strings.ReplaceAll(topic, "/", "_")
	if strings.HasPrefix(topic, "_") || strings.HasPrefix(topic, ".") {
		topic = "t" + topic
	}
	return topic[:min(len(topic), maxTopicBytes)]
}

// RetiredPath is where record n puts a file it retires.
func RetiredPath(n int64, final string) string {
	return path.Join(RetiredDir, strconv.FormatInt(n, 10), final)
}

// ManifestPath is the list of an hour's files.
func ManifestPath(hourDir string) string { return path.Join(hourDir, manifestName) }

// SuccessPath is the mark of a complete hour.
func SuccessPath(hourDir string) string { return path.Join(hourDir, successName) }

// FileName is what the name of a data file says.
type FileName struct {
	Merged bool
	Plan   string // first 8 digits of the plan id
	Split  int    // of a merged file
	// Of the file of one range:
	Topic     string // as file names carry it
	TopicID   string // first 8 hex digits
	Partition int32
	offsets.Range
}

var (
	mergedPattern = regexp.MustCompile(`^merged-([0-9a-f]{8})-(\d{5,})\.[a-z]+(?:\.zst|\.gz)?$`)
	rangePattern  = regexp.MustCompile(`^(.{1,100})-([0-9a-f]{8})-(\d{5,})-(\d{20})-(\d{20})-([0-9a-f]{8})\.[a-z]+(?:\.zst|\.gz)?$`)
	planPattern   = regexp.MustCompile(`^[0-9a-f]{16}$`)
	recordPattern = regexp.MustCompile(`^\d{12,}$`)
)

// ParseFileName reads the last element of a data file's path; ok is false for
// a file that is none of ours.
func ParseFileName(base string) (name FileName, ok bool) {
	if m := mergedPattern.FindStringSubmatch(base); m != nil {
		split, err := strconv.Atoi(m[2])
		return FileName{Merged: true, Plan: m[1], Split: split}, err == nil
	}
	m := rangePattern.FindStringSubmatch(base)
	if m == nil {
		return FileName{}, false
	}
	partition, err1 := strconv.ParseInt(m[3], 10, 32)
	start, err2 := strconv.ParseInt(m[4], 10, 64)
	end, err3 := strconv.ParseInt(m[5], 10, 64)
	name = FileName{
		Topic: m[1], TopicID: m[2], Partition: int32(partition), Plan: m[6],
		Range: offsets.Range{Start: offsets.Offset(start), End: offsets.Offset(end)},
	}
	return name, err1 == nil && err2 == nil && err3 == nil
}

// stageOf reads plan and split out of a staged file's path.
func stageOf(stage string) (planID string, split int, ok bool) {
	parts := strings.Split(stage, "/")
	if len(parts) < 6 || parts[0]+"/"+parts[1] != StagesDir || !planPattern.MatchString(parts[2]) {
		return "", 0, false
	}
	split, err := strconv.Atoi(parts[3])
	return parts[2], split, err == nil && split >= 0
}

// isHash tells whether s is a sha256 in hex.
func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}
