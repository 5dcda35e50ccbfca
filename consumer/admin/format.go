package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// formatFeature is the feature by which a cluster of Sawlog tells its format level.
const formatFeature = "sawlog.format.level"

// FormatLevel asks for the format level of the metadata that is in force, and for
// the newest that a broker knows; 0 where the brokers are not Sawlog's.
func FormatLevel(ctx context.Context, c consumer.Requestor) (now, newest int16, err error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "sawlog", "1"
	resp, err := consumer.Ask[*kmsg.ApiVersionsResponse](ctx, c, req)
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
	return now, newest, nil
}

// RaiseFormat raises the format level; dryRun only tells whether it could be.
func RaiseFormat(ctx context.Context, c consumer.Requestor, to int16, dryRun bool) error {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = formatFeature, to, 1
	req.FeatureUpdates, req.ValidateOnly = append(req.FeatureUpdates, u), dryRun
	resp, err := consumer.Ask[*kmsg.UpdateFeaturesResponse](ctx, c, req)
	if err != nil {
		return err
	}
	return refusal(fmt.Sprintf("format level %d", to), resp.ErrorCode, resp.ErrorMessage)
}
