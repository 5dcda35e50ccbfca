package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/config"
	"sawlog/cmd/sawlog/output"
)

// serverFlags gives a verb the settings of the server as flags.
func serverFlags(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", "", "YAML `FILE` of settings; SAWLOG_CONFIG otherwise")
	for _, s := range config.Settings() {
		if s.Bool {
			c.Flags().Bool(s.Name, s.Default == "true", s.Help)
		} else {
			c.Flags().String(s.Name, s.Default, s.Help)
		}
	}
}

// loadConfig resolves the settings of the server for a verb.
func loadConfig(c *cobra.Command, file string) (*config.Config, error) {
	given := map[string]string{}
	for _, s := range config.Settings() {
		if f := c.Flags().Lookup(s.Name); f != nil && f.Changed {
			given[s.Name] = f.Value.String()
		}
	}
	if file == "" {
		file = os.Getenv(config.EnvName("config"))
	}
	return config.Load(file, given, os.LookupEnv)
}

func (a *app) config() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show the settings of the server", Example: "  sawlog config view --origin -c sawlog.yaml"}
	var file string
	var origin bool
	view := &cobra.Command{
		Use: "view", Short: "Show every setting, and with --origin where it comes from", Args: cobra.NoArgs,
		Example: "  sawlog config view --origin -c sawlog.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd, file)
			if err != nil {
				return err
			}
			var shown any = c.Values
			if !origin {
				plain := map[string]string{}
				for _, v := range c.Values {
					plain[v.Name] = v.Value
				}
				shown = plain
			}
			return a.print.Print(shown, func() *output.Rows {
				rows := &output.Rows{}
				for _, v := range c.Values {
					cells := []string{v.Name, v.Value}
					if origin {
						cells = append(cells, "("+strings.TrimSpace(v.Origin)+")")
					}
					rows.Body = append(rows.Body, cells)
				}
				return rows
			})
		},
	}
	serverFlags(view, &file)
	view.Flags().BoolVar(&origin, "origin", false, "say where each value comes from")
	c.AddCommand(view)
	return c
}
