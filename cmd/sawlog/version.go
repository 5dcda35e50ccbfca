package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"sawlog/cmd/sawlog/output"
)

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  sawlog version -o json",
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return a.print.Print(v, func() *output.Rows {
				return &output.Rows{Body: [][]string{{"sawlog " + version, v["go"], v["platform"]}}}
			})
		},
	}
}

func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a directory", Args: cobra.ExactArgs(1), Example: "  sawlog man /usr/local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "SAWLOG", Section: "1", Source: "sawlog " + version}, args[0]); err != nil {
				return fmt.Errorf("man pages into %s: %w", args[0], err)
			}
			return a.print.Print(map[string]string{"written": args[0]}, func() *output.Rows {
				return &output.Rows{Body: [][]string{{"written", args[0]}}}
			})
		},
	}
}
