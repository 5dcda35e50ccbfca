package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/output"
)

// formatFeature is the feature by which a cluster tells its format level.
const formatFeature = "sawlog.format.level"

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
			now, newest, err := k.formatLevel(cmd.Context())
			if err != nil {
				return err
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
	if !dry {
		if err := a.confirm(fmt.Sprintf("raise the format level from %d to %d", now, to)); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = formatFeature, to, 1
	req.FeatureUpdates, req.ValidateOnly = append(req.FeatureUpdates, u), dry
	resp, err := ask[*kmsg.UpdateFeaturesResponse](cmd.Context(), k, req)
	if err != nil {
		return err
	}
	return kafkaCode("format level", resp.ErrorCode, resp.ErrorMessage)
}

// formatLevel asks for the format level in force and the newest a broker knows.
func (k *kafka) formatLevel(ctx context.Context) (now, newest int16, err error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "sawlog", "1"
	resp, err := ask[*kmsg.ApiVersionsResponse](ctx, k, req)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == formatFeature {
			now = f.MaxVersionLevel
		}
	}
	for _, f := range resp.SupportedFeatures {
		if f.Name == formatFeature {
			newest = f.MaxVersion
		}
	}
	if newest == 0 {
		return 0, 0, output.Errorf(output.Usage, "the brokers have no format level: they are not Sawlog's")
	}
	return now, newest, nil
}
