package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"sawlog/cmd/sawlog/output"
)

func (a *app) man() *cobra.Command {
	return &cobra.Command{
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
				if a.print.Format != output.Table {
					return output.Errorf(output.Usage, "a page is for people: -o json tells what was written into a DIR").WithHint("sawlog man DIR -o json")
				}
				return doc.GenMan(root, header, a.print.Out)
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("man pages into %s: %w", args[0], err)
			}
			return a.print.Print(map[string]string{"written": args[0]}, func() *output.Rows {
				return &output.Rows{Body: [][]string{{"written", args[0]}}}
			})
		},
	}
}
