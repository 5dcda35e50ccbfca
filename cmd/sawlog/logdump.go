package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"sawlog/broker/log"
	"sawlog/broker/vfs"
	"sawlog/cmd/sawlog/output"
)

func (a *app) logs() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into files of the log", Example: "  sawlog log dump data/orders-0/00000000000000000000.log"}
	c.AddCommand(&cobra.Command{
		Use: "dump FILE…", Short: "Print what a file of the data directory holds", Args: cobra.MinimumNArgs(1),
		Long: `Print segments (a line a batch, with codec=NAME), indexes, producer snapshots,
epochs and checkpoints. A damaged file is printed up to the damage and ends with
exit code 8. The file is only read.`,
		Example: "  sawlog log dump data/orders-0/00000000000000000000.log",
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if err := a.dump(name); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return c
}

func (a *app) dump(name string) error {
	err := log.Dump(vfs.OS, name, func(line string) error {
		return a.print.Line(map[string]string{"file": name, "line": line}, line)
	})
	var corrupt *log.CorruptError
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &output.Error{Code: output.NotFound, Err: err}
	case errors.As(err, &corrupt):
		return &output.Error{Code: output.Mismatch, Err: err, Hint: "what stands before the damage is printed above"}
	}
	return err
}
