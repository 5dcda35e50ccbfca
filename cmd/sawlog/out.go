package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/formats"
	"sawlog/loader"
	"sawlog/loader/sink"
	"sawlog/offsets"
)

func (a *app) out() *cobra.Command {
	c := &cobra.Command{
		Use: "out", Short: "Look into a data set, and change it",
		Example: "  sawlog out ls pageviews-hourly\n  sawlog out head --root file:///warehouse/pageviews -n 3",
	}
	c.AddCommand(a.outLs(), a.outHead(), a.outCount(), a.outSchema(), a.outFind(), a.outManifest(),
		a.outChanges(), a.outRewrite(), a.outRequeue(), a.outDrop(), a.outAmend())
	return c
}

// outSelection picks files of a data set.
type outSelection struct {
	datasetRef
	hour       string
	quarantine bool
}

func (s *outSelection) add(c *cobra.Command) {
	s.datasetRef.add(c)
	c.Flags().StringVar(&s.hour, "hour", "", "files of this `HOUR` only, such as 2026-11-29T14")
	c.Flags().BoolVar(&s.quarantine, "quarantine", false, "the quarantine files instead of the rows")
}

func (s *outSelection) files(fold *loader.Fold) ([]*loader.Visible, error) {
	var key *int64
	if s.hour != "" {
		t, err := offsets.ParseTime(s.hour, time.Now())
		if err != nil {
			return nil, output.Errorf(output.Usage, "--hour %s", err)
		}
		k := t.Unix()
		key = &k
	}
	var picked []*loader.Visible
	for _, f := range fold.All() {
		if (f.Hour == nil) == s.quarantine && (key == nil || f.Hour != nil && *f.Hour == *key) {
			picked = append(picked, f)
		}
	}
	return picked, nil
}

type outFile struct {
	Path   string `json:"path"`
	Hour   string `json:"hour,omitempty"`
	Rows   int64  `json:"rows"`
	Late   int64  `json:"late"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Run    string `json:"run"`
	Record int64  `json:"record"`
}

func outFileOf(f *loader.Visible) outFile {
	o := outFile{Path: f.Path, Rows: f.Rows, Late: f.Late, Bytes: f.Bytes, SHA256: f.SHA256, Run: f.Run, Record: f.Number}
	if f.Hour != nil {
		o.Hour = loader.HourText(*f.Hour)
	}
	return o
}

// nameOf is the data set among the arguments, if it is there.
func nameOf(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return ""
}

func (a *app) outLs() *cobra.Command {
	s := outSelection{}
	c := &cobra.Command{
		Use: "ls [DATASET]", Short: "List the visible files, from the ledger", Args: cobra.MaximumNArgs(1),
		Example: "  sawlog out ls --root file:///warehouse/pageviews --hour 2026-11-29T14",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, ledger, err := a.openDataset(cmd.Context(), s.datasetRef, nameOf(args))
			if err != nil {
				return err
			}
			picked, err := s.files(ledger.Fold())
			if err != nil {
				return err
			}
			return a.printFiles(picked)
		},
	}
	s.add(c)
	return c
}

func (a *app) printFiles(picked []*loader.Visible) error {
	list := []outFile{}
	for _, f := range picked {
		list = append(list, outFileOf(f))
	}
	return a.print.Print(list, func() *output.Rows {
		rows := &output.Rows{Head: []string{"ROWS", "BYTES", "RUN", "PATH"}}
		for _, f := range list {
			rows.Add(f.Rows, f.Bytes, f.Run, f.Path)
		}
		return rows
	})
}

func (a *app) outCount() *cobra.Command {
	s := outSelection{}
	c := &cobra.Command{
		Use: "count [DATASET]", Short: "Count rows by hour, from the ledger", Args: cobra.MaximumNArgs(1),
		Example: "  sawlog out count pageviews-hourly -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, ledger, err := a.openDataset(cmd.Context(), s.datasetRef, nameOf(args))
			if err != nil {
				return err
			}
			fold := ledger.Fold()
			if s.hour != "" || s.quarantine {
				picked, err := s.files(fold)
				if err != nil {
					return err
				}
				var rowCount int64
				for _, f := range picked {
					rowCount += f.Rows
				}
				return a.printCount(rowCount, len(picked), nil)
			}
			hours := fold.HourStates(0, 0)
			var rowCount, fileCount int64
			for _, h := range hours {
				rowCount += h.Rows
				fileCount += h.Files
			}
			return a.printCount(rowCount, int(fileCount), hours)
		},
	}
	s.add(c)
	return c
}

func (a *app) printCount(rowCount int64, files int, hours []loader.HourState) error {
	v := map[string]any{"rows": rowCount, "files": files}
	if hours != nil {
		v["hours"] = hours
	}
	return a.print.Print(v, func() *output.Rows {
		rows := &output.Rows{Head: []string{"HOUR", "ROWS", "LATE", "FILES", "STATE"}}
		for _, h := range hours {
			rows.Add(h.Hour, h.Rows, h.Late, h.Files, h.State)
		}
		rows.Add("total", rowCount, "", files, "")
		return rows
	})
}

func (a *app) outHead() *cobra.Command {
	s := outSelection{}
	var n int64
	var columns []string
	c := &cobra.Command{
		Use: "head [DATASET]", Short: "Print the first rows", Args: cobra.MaximumNArgs(1),
		Example: "  sawlog out head pageviews-hourly -n 5 --columns path,status\n  sawlog out head pageviews-hourly --quarantine",
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 {
				return output.Errorf(output.Usage, "-n %d: want 1 or more", n)
			}
			store, ledger, err := a.openDataset(cmd.Context(), s.datasetRef, nameOf(args))
			if err != nil {
				return err
			}
			picked, err := s.files(ledger.Fold())
			if err != nil {
				return err
			}
			a.print.Stream()
			for _, f := range picked {
				shown, err := a.headOf(store, f, columns, n)
				if err != nil {
					return err
				}
				if n -= shown; n <= 0 {
					break
				}
			}
			return nil
		},
	}
	s.add(c)
	c.Flags().Int64VarP(&n, "number", "n", 10, "rows to print")
	c.Flags().StringSliceVar(&columns, "columns", nil, "these columns only")
	return c
}

func openRows(store sink.Sink, file *loader.Visible) (loader.RowReader, func() error, error) {
	name := file.Path
	f, err := store.Open(name)
	if err != nil {
		return nil, nil, err
	}
	r, err := loader.OpenRows(f, f.Size(), &file.File)
	if err != nil {
		_ = f.Close() // the damage is the error to report
		return nil, nil, &output.Error{Code: output.Mismatch, Msg: name, Err: err, Hint: "sawlog verify says what else is wrong, sawlog rerun makes the file again"}
	}
	return r, f.Close, nil
}

func (a *app) headOf(store sink.Sink, file *loader.Visible, columns []string, n int64) (shown int64, err error) {
	r, closeFile, err := openRows(store, file)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := closeFile(); err == nil {
			err = cerr
		}
	}()
	names := r.Columns()
	if len(columns) > 0 {
		for _, c := range columns {
			if !slices.Contains(names, c) {
				return 0, output.Errorf(output.Usage, "--columns: %s has no column %q", file.Path, c).WithHint("sawlog out schema lists the columns")
			}
		}
		names = columns
	}
	err = r.Read(columns, 0, n, func(row [][]byte) error {
		shown++
		object := make([]string, len(row))
		for i, value := range row {
			object[i] = string(formats.AppendQuoted(nil, names[i])) + ":" + string(value)
		}
		text := "{" + strings.Join(object, ",") + "}"
		return a.print.Line(json.RawMessage(text), text)
	})
	return shown, err
}

func (a *app) outSchema() *cobra.Command {
	ref := datasetRef{}
	c := &cobra.Command{
		Use: "schema [DATASET]", Short: "Print the columns of a data set", Args: cobra.MaximumNArgs(1),
		Example: "  sawlog out schema pageviews-hourly",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, ledger, err := a.openDataset(cmd.Context(), ref, nameOf(args))
			if err != nil {
				return err
			}
			schema := ledger.Fold().Schema
			return a.print.Print(schema, func() *output.Rows {
				rows := &output.Rows{Head: []string{"COLUMN", "TYPE", "FROM"}}
				if schema != nil {
					for _, f := range schema.Fields {
						rows.Add(f.Name, f.Type, strings.Join(f.From, " › "))
					}
				}
				return rows
			})
		},
	}
	ref.add(c)
	return c
}

func (a *app) outFind() *cobra.Command {
	ref := datasetRef{}
	c := &cobra.Command{
		Use: "find [DATASET] TOPIC/PARTITION@OFFSET", Short: "Say which file holds an offset", Args: cobra.RangeArgs(1, 2),
		Example: "  sawlog out find pageviews-hourly pageviews/3@12",
		RunE: func(cmd *cobra.Command, args []string) error {
			what := args[len(args)-1]
			of, at, err := offsets.ParsePosition(what)
			if err != nil {
				return output.Errorf(output.Usage, "%w", err)
			}
			store, ledger, err := a.openDataset(cmd.Context(), ref, nameOf(args[:len(args)-1]))
			if err != nil {
				return err
			}
			fold := ledger.Fold()
			if !fold.Covers(of.Topic, of.Partition, at) {
				return output.Errorf(output.NotFound, "%s is not loaded in data set %s", what, fold.Dataset).WithHint("sawlog runs list shows what was loaded, sawlog topic offsets what there is")
			}
			for _, f := range fold.HoldersOf(of.Topic, of.Partition, at) {
				row, err := rowOf(cmd.Context(), store, f, of.Partition, at)
				if err != nil {
					return err
				}
				if row >= 0 {
					v := map[string]any{"path": f.Path, "row": row, "quarantined": f.Hour == nil, "run": f.Run}
					return a.print.Print(v, func() *output.Rows {
						return &output.Rows{Head: []string{"PATH", "ROW"}, Body: [][]string{{f.Path, strconv.FormatInt(row, 10)}}}
					})
				}
			}
			return output.Errorf(output.NotFound, "%s %s", what, loader.NoRow).WithHint("sawlog consume shows what is at an offset; sawlog out changes what was dropped, and why")
		},
	}
	ref.add(c)
	return c
}

// rowOf finds the row of an offset in a file; -1 when it is not there.
func rowOf(ctx context.Context, store sink.Sink, file *loader.Visible, partition int32, at offsets.Offset) (row int64, err error) {
	r, closeFile, err := openRows(store, file)
	if err != nil {
		return -1, err
	}
	defer func() {
		if cerr := closeFile(); err == nil {
			err = cerr
		}
	}()
	if row, err = loader.RowOf(ctx, r, partition, at); err != nil {
		err = fmt.Errorf("%s: %w", file.Path, err)
	}
	return row, err
}

func (a *app) outManifest() *cobra.Command {
	ref := datasetRef{}
	var hour string
	c := &cobra.Command{
		Use: "manifest [DATASET] --hour HOUR", Short: "Print the manifest of an hour", Args: cobra.MaximumNArgs(1),
		Example: "  sawlog out manifest pageviews-hourly --hour 2026-11-29T14",
		RunE: func(cmd *cobra.Command, args []string) error {
			if hour == "" {
				return output.Errorf(output.Usage, "--hour is needed")
			}
			_, ledger, err := a.openDataset(cmd.Context(), ref, nameOf(args))
			if err != nil {
				return err
			}
			picked, err := (&outSelection{hour: hour}).files(ledger.Fold())
			if err != nil {
				return err
			}
			if len(picked) == 0 {
				return output.Errorf(output.NotFound, "hour %s holds no file", hour).WithHint("sawlog out count lists the hours that do")
			}
			manifest, err := ledger.ReadManifest(picked[0].HourDir())
			if err != nil {
				return err
			}
			return a.print.Print(manifest, func() *output.Rows {
				rows := &output.Rows{Head: []string{"ROWS", "LATE", "BYTES", "RECORD", "NAME"}}
				for _, f := range manifest.Files {
					rows.Add(f.Rows, f.Late, f.Bytes, f.Record, f.Name)
				}
				return rows
			})
		},
	}
	ref.add(c)
	c.Flags().StringVar(&hour, "hour", "", "the `HOUR`, such as 2026-11-29T14")
	return c
}
