package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
)

func (a *app) clusterUpgrade() *cobra.Command {
	var to int16
	var dry bool
	c := &cobra.Command{
		Use: "upgrade", Short: "Let a cluster use what its new release brought", Args: cobra.NoArgs,
		Long: `Raise the format level of the cluster's metadata to the newest that this release
of the brokers knows, or to --to. Do so once all brokers were restarted with the
release, one by one, and it has proven itself: there is no way back, and brokers of
an older release neither start nor join from then on. It is refused while a broker
doesn't know the level; one that won't come back is forgotten by cluster forget.`,
		Example: "  sawlog cluster upgrade --dry-run\n  sawlog cluster upgrade --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			now, newest, err := admin.FormatLevel(cmd.Context(), k)
			if err != nil {
				return err
			}
			if newest == 0 {
				return output.Errorf(output.Usage, "the brokers have no format level: they are not Sawlog's")
			}
			if to == 0 {
				to = newest
			}
			if to != now {
				if err := a.raiseFormat(cmd, k, now, to, dry); err != nil {
					return err
				}
			}
			return a.print.Print(map[string]any{"from": now, "to": to, "dry_run": dry}, func() *output.Rows {
				rows := &output.Rows{Head: []string{"FROM", "TO"}}
				rows.Add(now, to)
				return rows
			})
		},
	}
	c.Flags().Int16Var(&to, "to", 0, "format level; the newest the brokers know when left out")
	c.Flags().BoolVar(&dry, "dry-run", false, "only tell whether it could be done")
	return c
}

func (a *app) raiseFormat(cmd *cobra.Command, k *kafka, now, to int16, dry bool) error {
	if dry {
		return admin.RaiseFormat(cmd.Context(), k, to, dry)
	}
	if err := a.confirm(fmt.Sprintf("raise the format level from %d to %d", now, to)); err != nil {
		return err
	}
	return deed(admin.RaiseFormat(cmd.Context(), k, to, dry), "sawlog cluster upgrade --dry-run shows the level")
}
