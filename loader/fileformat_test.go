package loader

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sawlog/broker/record"
)

// TestFormats loads into data sets of every format: small files and large ones,
// bad records and late columns; verify reads all of it, a rerun brings lost files
// back, byte by byte, and the rows are those of the Parquet files.
func TestFormats(t *testing.T) {
	var want [][]string
	for _, tt := range []struct {
		format, codec, suffix string
		level                 int
	}{
		{"parquet", "zstd", ".parquet", 0},
		{"arrow", "zstd", ".arrow", 0},
		{"arrow", "lz4", ".arrow", 0},
		{"arrow", "none", ".arrow", 0},
		{"jsonl", "zstd", ".jsonl.zst", 7},
		{"jsonl", "gzip", ".jsonl.gz", 0},
		{"jsonl", "none", ".jsonl", 0},
	} {
		t.Run(tt.format+" "+tt.codec, func(t *testing.T) {
			r := newRig(t, 1)
			r.spec.Format, r.spec.Codec, r.spec.Level = tt.format, tt.codec, tt.level
			var values []string
			for i := range batchRows + 300 { // more than a batch in one hour, few rows in others
				hour := 7
				if i%100 == 0 {
					hour = i / 100 % 5
				}
				values = append(values, view(hour, i%60, fmt.Sprint("/p", i)))
			}
			values = append(values, "no json", `{"ts":"2026-11-29T07:00:00Z","late":{"q\n":[1.5,null]}}`)
			r.src.log("views", 0).put(t, 100, record.None, lines(values...)...)
			out := r.load(PlanAsk{})
			if out.Rows != int64(len(values)-1) || out.Quarantined != 1 {
				t.Fatalf("%d rows, %d bad", out.Rows, out.Quarantined)
			}
			rows := r.formatRows(tt.suffix)
			if want == nil {
				want = rows
			}
			if fmt.Sprint(rows) != fmt.Sprint(want) {
				t.Errorf("%d rows, or others than Parquet's %d", len(rows), len(want))
			}
			r.loseAndRerun(tt.suffix)
		})
	}
}

// formatRows reads every row of the data files, whose names end in suffix.
func (r *rig) formatRows(suffix string) (rows [][]string) {
	r.t.Helper()
	l, err := r.d.Ledger(r.t.Context(), "", "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range l.Fold().All() {
		if v.Hour == nil {
			continue
		}
		if _, ok := ParseFileName(filepath.Base(v.Path)); !ok || !strings.HasSuffix(v.Path, suffix) {
			r.t.Errorf("file %s, want …%s", v.Path, suffix)
		}
		f, err := r.d.Sink.Open(v.Path)
		if err != nil {
			r.t.Fatal(err)
		}
		in, err := OpenRows(f, f.Size(), &v.File)
		if err != nil {
			r.t.Fatal(err)
		}
		err = in.Read([]string{"_offset", "ts", "path", "n", "late"}, 0, -1, func(row [][]byte) error {
			rows = append(rows, []string{filepath.Dir(v.Path), fmt.Sprintf("%s", row)})
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	return rows
}

// loseAndRerun damages one file and removes another, has verify tell of both and
// a rerun bring both back as they were.
func (r *rig) loseAndRerun(suffix string) {
	r.t.Helper()
	ctx := context.Background()
	var paths []string
	if err := filepath.WalkDir(r.root, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, suffix) {
			paths = append(paths, path)
		}
		return err
	}); err != nil || len(paths) < 3 {
		r.t.Fatalf("files %v, %v", paths, err)
	}
	whole := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		whole[path] = string(data)
	}
	damaged := []byte(whole[paths[0]])
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(paths[0], damaged, 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Remove(paths[1]); err != nil {
		r.t.Fatal(err)
	}
	verify := func() (*VerifyReport, error) {
		l, err := r.d.Ledger(ctx, "", "")
		if err != nil {
			r.t.Fatal(err)
		}
		return l.Verify(ctx, "")
	}
	if report, err := verify(); ExitCode(err) != ExitMismatch || len(report.Problems) != 2 {
		r.t.Errorf("verify of two lost files: %+v, %v", report, err)
	}
	if report, err := r.d.Rerun(ctx, "run-1"); err != nil || report.Restored != 2 {
		r.t.Fatalf("rerun: %+v, %v", report, err)
	}
	for path, want := range whole {
		if data, err := os.ReadFile(path); err != nil || string(data) != want {
			r.t.Errorf("%s after the rerun: %d bytes, want %d, or others; %v", path, len(data), len(want), err)
		}
	}
	if report, err := verify(); err != nil || !report.OK {
		r.t.Errorf("verify after the rerun: %+v, %v", report, err)
	}
}

// TestCheckCodec holds which codecs each format takes.
func TestCheckCodec(t *testing.T) {
	for _, tt := range []struct {
		format, codec string
		level         int
		ok            bool
	}{
		{"parquet", "snappy", 0, true},
		{"parquet", "lz4", 0, false},
		{"parquet", "zstd", 22, true},
		{"parquet", "zstd", 23, false},
		{"parquet", "snappy", 1, false},
		{"arrow", "lz4", 0, true},
		{"arrow", "gzip", 0, false},
		{"arrow", "zstd", 3, false},
		{"jsonl", "gzip", 9, true},
		{"jsonl", "snappy", 0, false},
		{"jsonl", "none", 1, false},
	} {
		if err := CheckCodec(tt.format, tt.codec, tt.level); (err == nil) != tt.ok {
			t.Errorf("%s %s:%d: %v", tt.format, tt.codec, tt.level, err)
		}
	}
}
