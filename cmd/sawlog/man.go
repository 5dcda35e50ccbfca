package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"sawlog/cmd/sawlog/output"
)

func (a *app) man() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "man [DIR]", Short: "Write the manual pages, one for each verb, into a directory", Args: cobra.MaximumNArgs(1),
		Long: `Write the manual pages into a directory, one for each verb. Without one the page
of sawlog itself goes to standard output. SOURCE_DATE_EPOCH, in seconds, is the
date they bear.`,
		Example: "  sawlog man /usr/local/share/man/man1\n  sawlog man | man -l -",
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "SAWLOG", Section: "1", Source: "sawlog " + version, Manual: "Sawlog"}
			if len(args) == 0 {
				var page strings.Builder
				if err := doc.GenMan(root, header, &page); err != nil {
					return err
				}
				return a.printText("page", page.String())
			}
			if st, err := os.Stat(args[0]); err == nil && !st.IsDir() {
				return output.Errorf(output.Conflict, "%s is no folder", args[0]).WithHint("name another DIR")
			}
			if dryRun {
				return a.printWritten(args[0], true)
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("man pages into %s: %w", args[0], err)
			}
			return a.printWritten(args[0], false)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only tell where they would be written")
	return c
}

// printText prints a text as it is, or with -o json as a field of that name.
func (a *app) printText(name, text string) error {
	if a.print.Format != output.Table {
		return a.print.Print(map[string]string{name: text}, nil)
	}
	_, err := io.WriteString(a.print.Out, text)
	return err
}
