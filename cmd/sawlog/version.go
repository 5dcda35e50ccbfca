package main

import (
	"runtime"

	"github.com/spf13/cobra"

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
