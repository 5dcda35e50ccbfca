package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cases names, for each problem that people reported in public of loads (A, B and C
// of cases.md among the real inputs), brokers (D) and command lines (E), the tests
// that rebuild it.
var cases = map[string]string{
	"A1":  "cmd/sawlog.TestProofHours cmd/sawlog.TestProofTimestampsKeepTheirValue formats.TestParseTime",
	"A2":  "cmd/sawlog.TestProofHours formats.TestParseTime",
	"A4":  "cmd/sawlog.TestProofNoTimestamp formats.TestRecordTime",
	"A5":  "cmd/sawlog.TestProofHours cmd/sawlog.TestProofTimestampsKeepTheirValue loader.TestBucketKeysAndPaths",
	"A7":  "cmd/sawlog.TestProofZonesAreRefusedAtTheStart formats.TestZones",
	"A9":  "formats/parquet.TestAvroContainers",
	"B1":  "cmd/sawlog.TestProofNumbers formats.TestInferredTypes",
	"B2":  "cmd/sawlog.TestProofEmptyAndNull",
	"B3":  "cmd/sawlog.TestProofEmptyAndNull formats/parquet.TestShapesByForeignReaders",
	"B6":  "cmd/sawlog.TestProofFramedBytes formats.TestFraming",
	"B7":  "formats.TestFraming",
	"B8":  "formats.TestAvroRefused formats.TestAvroColumns formats.TestProtobufColumns",
	"B11": "formats.TestProtobufPresence",
	"B13": "cmd/sawlog.TestProofTombstones",
	"B14": "cmd/sawlog.TestProofHours",
	"C1":  "cmd/sawlog.TestProofFromKafka consumer.TestReaderTransactions",
	"C3":  "cmd/sawlog.TestProofRetentionPassedTheStart cmd/sawlog.TestProofRetentionUnderRun",
	"C5":  "cmd/sawlog.TestSoakDriverKilled loader.TestCrashTable loader.TestKill",
	"C6":  "cmd/sawlog.TestProofNothingToLoad loader.TestRunOnlyBadRecords",
	"D1":  "broker.TestEmptyBatchIsRefused broker.TestEmptyBatchInALogIsPassed",
	"D2":  "broker.TestEmptyOffsetCommit",
	"D3":  "broker.TestMaxTimestampIsCorrected",
	"D5":  "broker.TestCapturedBatchesAreKeptByteForByte",
	"D6":  "broker.TestLargeRecordIsReturnedWhole",
	"D7":  "broker/record.TestVectorsRefused consumer.TestReaderTruncatedTail",
	"D8":  "broker.TestNestedCompressionIsRefused",
	"D11": "broker.TestLogAppendTime",
	"D13": "broker.TestOddFrames",
	"D14": "broker.TestCommittedReadOfNothing",
	"D15": "broker.TestFlippedBitIsNoticed",
	"E1":  "cmd/sawlog.TestProofUnreachable cmd/sawlog.TestNoServer",
	"E4":  "cmd/sawlog.TestFlagsSayWhatTheyTake cmd/sawlog.TestFlagsWantAValue",
}

// TestEveryCaseHasATest wants each case in the table, and each test of the table
// to be there.
func TestEveryCaseHasATest(t *testing.T) {
	text := string(mustRead(t, filepath.Join(realData(t), "cases.md")))
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([A-E]\d+) \|`).FindAllStringSubmatch(text, -1) {
		known[m[1]] = true
		if cases[m[1]] == "" {
			t.Errorf("case %s has no test", m[1])
		}
	}
	if len(known) < 30 {
		t.Errorf("only %d cases were found", len(known))
	}
	for id, tests := range cases {
		if !known[id] {
			t.Errorf("there is no case %s", id)
		}
		for name := range strings.FieldsSeq(tests) {
			dir, fn, _ := strings.Cut(name, ".")
			if !hasTest(t, filepath.Join("..", "..", dir), fn) {
				t.Errorf("case %s: %s has no %s", id, dir, fn)
			}
		}
	}
}

// hasTest looks for a test in the test files of a folder.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
