package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateFeatures, versions 0–2 (KIP-584, KIP-778), and the features that
// ApiVersions tells of. metadata.version is the one by which tools name the
// release they talk to; eligible.leader.replicas.version says that partitions
// have an ELR (KIP-966). Of both this broker has one level, so an update either
// changes nothing or is refused. sawlog.format.level is the level of what the
// metadata may hold, and is raised once all brokers know the next.
//
// transaction.version, group.version, share.version and streams.version are not
// known to this broker and are not named: a client that saw the first at level 2
// would leave it to the broker to add partitions to transactions (KIP-890).

// formatFeature is the name by which tools know the format level.
const formatFeature = "sawlog.format.level"

// feature is what a cluster may agree on a level of.
type feature struct {
	name            string
	level           int16 // in force; 0 = none
	lowest, highest int16 // this broker knows
}

// features are those of Apache Kafka 4.4 that work here, metadata.version 33
// being its 4.4-IV2, and Sawlog's own.
func (b *Broker) features() []feature {
	levels := b.controller.Levels()
	return []feature{
		{"eligible.leader.replicas.version", 1, 1, 1},
		{"metadata.version", 33, 33, 33},
		{formatFeature, b.controller.Image().FormatLevel, levels.Min, levels.Max},
	}
}

func (b *Broker) updateFeatures(r *kmsg.UpdateFeaturesRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	for _, dry := range []bool{true, false} { // all or none
		for i := range r.FeatureUpdates {
			if !dry && r.ValidateOnly {
				break
			}
			if err := b.updateFeature(&r.FeatureUpdates[i], dry); err != nil {
				m.ErrorCode, m.ErrorMessage = codeAndText(refuse(kerr.InvalidUpdateVersion,
					"The update failed for all features since the following feature had an error: %s", err))
				return m
			}
		}
	}
	for i := range r.FeatureUpdates {
		if r.Version < 2 {
			out := kmsg.NewUpdateFeaturesResponseResult()
			out.Feature, out.ErrorMessage = r.FeatureUpdates[i].Feature, new("NONE")
			m.Results = append(m.Results, out)
		}
	}
	return m
}

// updateFeature makes one update, or with dry only judges it.
func (b *Broker) updateFeature(ask *kmsg.UpdateFeaturesRequestFeatureUpdate, dry bool) error {
	invalid := func(format string, args ...any) error {
		return refuse(kerr.InvalidUpdateVersion, "Invalid update version %d for feature %s. "+format, append([]any{ask.MaxVersionLevel, ask.Feature}, args...)...)
	}
	for _, f := range b.features() {
		switch {
		case f.name != ask.Feature:
			continue
		case ask.MaxVersionLevel == f.level:
			return nil
		case ask.MaxVersionLevel >= 0 && (ask.MaxVersionLevel < f.lowest || ask.MaxVersionLevel > f.highest):
			return invalid("Local controller %d only supports versions %d-%d", b.nodeID, f.lowest, f.highest)
		case ask.MaxVersionLevel >= 0 && f.name == formatFeature:
			ctx, cancel := b.adminContext(0)
			defer cancel()
			if err := b.controller.RaiseFormat(ctx, ask.MaxVersionLevel, dry); err != nil {
				return invalid("%s", err)
			}
			return nil
		}
	}
	if ask.MaxVersionLevel < 0 {
		return invalid("A feature version cannot be less than 0.")
	}
	return invalid("Local controller %d does not support this feature.", b.nodeID)
}
