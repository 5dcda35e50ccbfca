package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sawlog/broker/controller"
	"sawlog/broker/group"
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/broker/vfs"
	"sawlog/cmd/sawlog/output"
	"sawlog/offsets"
)

func (a *app) logs() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into files of the log", Example: "  sawlog log dump data/orders-0/00000000000000000000.log"}
	var o log.DumpOptions
	var from int64
	var limit int
	var decode string
	dump := &cobra.Command{
		Use: "dump FILE…", Short: "Print what a file of the data directory holds", Args: cobra.MinimumNArgs(1),
		Long: `Print any file of a data directory, a line an entry: segments (a line a batch,
with codec=NAME), also those that compaction is making (.cleaned, .swap) or
recovery cut off (.cut), their indexes, producer snapshots, epochs, checkpoints,
the metadata log with its records, snapshots and stable store, and offsets.db.
Damage is printed where it is, and what is sound after it; a damaged file ends
with exit code 8 and the place. Files are only read.`,
		Example: `  sawlog log dump data/orders-0/00000000000000000000.log
  sawlog log dump --records --from 12 -n 10 data/orders-0/00000000000000000000.log
  sawlog log dump --decode offsets data/__consumer_offsets-14/*.log -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			o.From = offsets.Offset(from)
			if limit < 0 {
				return output.Errorf(output.Usage, "-n %d: want a number of lines, or 0 for all", limit)
			}
			if o.Decode = decoders()[decode]; decode != "" && o.Decode == nil {
				return output.Errorf(output.Usage, "--decode %q: want offsets, jobs or metadata", decode)
			}
			a.print.Stream()
			for _, name := range args {
				if err := a.dump(name, o, limit); err != nil {
					return err
				}
			}
			return nil
		},
	}
	dump.Flags().BoolVar(&o.Records, "records", false, "print the records of each batch: key, value, headers, times")
	dump.Flags().Int64Var(&from, "from", 0, "leave out batches and records below this offset")
	dump.Flags().IntVarP(&limit, "lines", "n", 0, "print at most this many lines of each file; 0 prints all")
	dump.Flags().StringVar(&decode, "decode", "", "say what the records mean: offsets, jobs or metadata")
	c.AddCommand(dump)
	return c
}

// decoders are the meanings of records, by what --decode calls them.
func decoders() map[string]func(*record.Record) ([]slog.Attr, error) {
	return map[string]func(*record.Record) ([]slog.Attr, error){
		"offsets": group.DumpRecord, "jobs": dumpJob, "metadata": controller.DumpRecord,
	}
}

// dumpJob says what a record of the jobs' journal is.
func dumpJob(r *record.Record) ([]slog.Attr, error) {
	kind, name, ok := strings.Cut(string(r.Key), "/")
	if !ok || r.Value != nil && !json.Valid(r.Value) {
		return nil, fmt.Errorf("no record of a job: key %q", r.Key)
	}
	line := []slog.Attr{slog.String("kind", kind), slog.String("name", name)}
	if r.Value == nil {
		return append(line, slog.Bool("tombstone", true)), nil
	}
	return append(line, slog.Any("state", json.RawMessage(r.Value))), nil
}

// dump prints one file, a number of lines at most.
func (a *app) dump(name string, o log.DumpOptions, limit int) error {
	path := name
	if whole, err := filepath.Abs(name); err == nil {
		path = filepath.ToSlash(whole)
	}
	printed := 0
	line := func(attrs []slog.Attr) error {
		if printed++; limit > 0 && printed > limit {
			return errDumped
		}
		text, err := log.DumpJSON(append([]slog.Attr{slog.String("file", name)}, attrs...))
		if err != nil {
			return err
		}
		return a.print.Line(json.RawMessage(text), log.DumpText(attrs))
	}
	var err error
	switch {
	case filepath.Base(name) == "offsets.db":
		err = offsets.DumpStore(name, line)
	case controller.DumpsFile(path):
		err = controller.DumpFile(vfs.OS, name, line)
	default:
		if controller.DumpsLog(path) && o.Decode == nil {
			o.Decode = controller.DumpRecord
		}
		err = log.Dump(vfs.OS, name, o, line)
	}
	var corrupt *log.CorruptError
	switch {
	case err == nil, errors.Is(err, errDumped):
		return nil
	case errors.Is(err, os.ErrNotExist):
		return notThere(err)
	case errors.As(err, &corrupt), errors.Is(err, controller.ErrDamaged), errors.Is(err, offsets.ErrDamaged):
		return &output.Error{Code: output.Mismatch, Err: err, Hint: "what is sound is printed above"}
	case errors.Is(err, log.ErrNotOurs):
		return &output.Error{Code: output.Usage, Err: err, Hint: "files of a data directory are segments and indexes of its partitions, its metadata, offsets.db"}
	}
	return err
}

// errDumped ends a dump whose limit is reached.
var errDumped = errors.New("enough lines")
