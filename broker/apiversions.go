package broker

import (
	"fmt"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/wire"
)

// ApiVersions, versions 0–5. A version above ours is answered with error 35 in
// the version 0 form, naming the range of ApiVersions itself, so that the client
// can ask again; the response header has no tagged fields in any version
// (KIP-511). Features are those of updatefeatures.go (KIP-584). Version 5 lets a client say which
// node it believes to talk to (KIP-1242).

// apiVersions answers what this broker speaks.
func (b *Broker) apiVersions(e *wire.Exchange) {
	own, _ := findAPI(keyApiVersions)
	if e.Version < own.min || e.Version > own.max {
		m := kmsg.NewPtrApiVersionsResponse()
		m.ErrorCode = kerr.UnsupportedVersion.Code
		m.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: own.key, MinVersion: own.min, MaxVersion: own.max}}
		e.Reply(m)
		return
	}
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version = e.Version
	if err := r.ReadFrom(e.Body); err != nil {
		e.Fail(fmt.Errorf("ApiVersions version %d: %w", e.Version, err))
		return
	}
	m := r.ResponseKind().(*kmsg.ApiVersionsResponse)
	m.Version = e.Version
	m.ErrorCode = b.checkApiVersions(r)
	if m.ErrorCode == 0 {
		m.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(apis))
		for i := range apis {
			a := &apis[i]
			m.ApiKeys = append(m.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: a.key, MinVersion: a.advertisedMin(), MaxVersion: a.max})
		}
		m.FinalizedFeaturesEpoch = int64(b.controller.Image().Index)
		for _, f := range b.features() {
			m.SupportedFeatures = append(m.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.name, MinVersion: f.lowest, MaxVersion: f.highest})
			m.FinalizedFeatures = append(m.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.name, MinVersionLevel: f.level, MaxVersionLevel: f.level})
		}
	}
	e.Reply(m)
}

// softwareName is what client software may be called.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (b *Broker) checkApiVersions(r *kmsg.ApiVersionsRequest) int16 {
	if r.Version >= 3 && (!softwareName.MatchString(r.ClientSoftwareName) || !softwareName.MatchString(r.ClientSoftwareVersion)) {
		return kerr.InvalidRequest.Code
	}
	if r.Version >= 5 {
		switch {
		case (r.ClusterID == nil) != (r.NodeID == -1):
			return kerr.InvalidRequest.Code
		case r.ClusterID != nil && (*r.ClusterID != b.clusterID || r.NodeID != int32(b.nodeID)):
			return kerr.RebootstrapRequired.Code
		}
	}
	return 0
}
