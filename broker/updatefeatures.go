package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateFeatures, versions 0–2 (KIP-584, KIP-778), and the features that
// ApiVersions tells of. metadata.version is the one by which tools name the
// release they talk to; eligible.leader.replicas.version says that partitions
// have an ELR (KIP-966). Of both this broker has one level, so an update either
// changes nothing or is refused.
//
// transaction.version, group.version, share.version and streams.version are not
// known to this broker and are not named: a client that saw the first at level 2
// would leave it to the broker to add partitions to transactions (KIP-890).

// feature is what a cluster may agree on a level of.
type feature struct {
	name  string
	level int16 // the one there is, and in force
}

// features are those of Apache Kafka 4.4 that work here; metadata.version 33 is
// its 4.4-IV2.
func features() []feature {
	return []feature{
		{"eligible.leader.replicas.version", 1},
		{"metadata.version", 33},
	}
}

func (b *Broker) updateFeatures(r *kmsg.UpdateFeaturesRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	m.Default()
	m.Version = r.Version
	for i := range r.FeatureUpdates {
		if err := b.updateFeature(&r.FeatureUpdates[i]); err != nil {
			m.Results = nil
			m.ErrorCode, m.ErrorMessage = codeAndText(refuse(kerr.InvalidUpdateVersion,
				"The update failed for all features since the following feature had an error: %s", err))
			return m
		}
		if r.Version < 2 {
			out := kmsg.NewUpdateFeaturesResponseResult()
			out.Feature, out.ErrorMessage = r.FeatureUpdates[i].Feature, new("NONE")
			m.Results = append(m.Results, out)
		}
	}
	return m
}

// updateFeature judges one update; only what is in force already passes.
func (b *Broker) updateFeature(ask *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	invalid := func(format string, args ...any) error {
		return refuse(kerr.InvalidUpdateVersion, "Invalid update version %d for feature %s. "+format, append([]any{ask.MaxVersionLevel, ask.Feature}, args...)...)
	}
	for _, f := range features() {
		if f.name != ask.Feature {
			continue
		}
		switch {
		case ask.MaxVersionLevel == f.level:
			return nil
		case ask.MaxVersionLevel >= 0:
			return invalid("Local controller %d only supports versions %d-%d", b.nodeID, f.level, f.level)
		}
	}
	if ask.MaxVersionLevel < 0 {
		return invalid("A feature version cannot be less than 0.")
	}
	return invalid("Local controller %d does not support this feature.", b.nodeID)
}
