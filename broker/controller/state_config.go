package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of one configuration, in bytes, so that any one fits in an entry.
const (
	maxConfigKey   = 249
	MaxConfigValue = 32 << 10
)

// Configurations that decide on leaders.
const (
	minISRKey  = "min.insync.replicas"
	uncleanKey = "unclean.leader.election.enable"
)

// alterConfigs decides on a change of one resource's configurations, and on
// the elections that become due by it.
func (im *Image) alterConfigs(s settings, c ConfigChange) (decision, error) {
	have, err := im.configs(c.Resource)
	if err != nil {
		return decision{}, err
	}
	want := make(map[string]string)
	if !c.Replace {
		maps.Copy(want, have)
	}
	named := make(map[string]bool)
	for _, op := range c.Ops {
		if named[op.Key] {
			return decision{}, fmt.Errorf("%w: %q is named twice", ErrInvalidConfig, op.Key)
		}
		named[op.Key] = true
		switch op.Kind {
		case Set:
			want[op.Key] = op.Value
		case Delete:
			delete(want, op.Key)
		case Append, Subtract:
			old, ok := have[op.Key]
			if !ok {
				old = s.lookup(im, nil, op.Key)
			}
			want[op.Key] = editList(old, op)
		default:
			return decision{}, fmt.Errorf("%w: operation %d on %q", ErrInvalidConfig, op.Kind, op.Key)
		}
	}
	if err := s.checkConfigs(c.Resource, want); err != nil {
		return decision{}, err
	}
	records := configDiff(c.Resource, have, want)
	touches := func(key string) bool {
		return slices.ContainsFunc(records, func(r record) bool { return r.(*configRecord).Key == key })
	}
	d := decision{records: records, atomic: true}
	if drops := im.dropELR(c.Resource); touches(minISRKey) && len(drops) > 0 {
		d = decision{records: append(drops, records...)}
	}
	if touches(uncleanKey) {
		after, err := im.apply(im.Index+1, d.records)
		if err != nil {
			return decision{}, err
		}
		if elections := after.settleAll(s, nil); len(elections) > 0 {
			d = decision{records: append(d.records, elections...)}
		}
	}
	return d, nil
}

// configs is what was set for a resource that must exist.
func (im *Image) configs(r Resource) (map[string]string, error) {
	switch r.Kind {
	case TopicResource:
		if t, ok := im.byName.get(r.Name); ok {
			return t.Configs, nil
		}
		return nil, refuse(ErrUnknownTopic, "The topic '%s' does not exist.", r.Name)
	case BrokerResource:
		if r.Name == "" {
			return im.BrokerConfig, nil
		}
		if id, ok := parseBrokerName(r.Name); ok {
			if _, ok := im.Broker(id); ok {
				return im.brokerConfigs[id], nil
			}
		}
		return nil, fmt.Errorf("%w: %q", ErrUnknownBroker, r.Name)
	default:
		return nil, fmt.Errorf("%w: resource kind %d", ErrInvalidConfig, r.Kind)
	}
}

// editList adds the operation's items to a comma-separated list or takes them away.
func editList(old string, op ConfigOp) string {
	items := splitList(old)
	for _, item := range splitList(op.Value) {
		at := slices.Index(items, item)
		switch {
		case op.Kind == Append && at < 0:
			items = append(items, item)
		case op.Kind == Subtract && at >= 0:
			items = slices.Delete(items, at, at+1)
		}
	}
	return strings.Join(items, ",")
}

func splitList(s string) (items []string) {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// configDiff is the records that lead from one set of configurations to another.
func configDiff(r Resource, have, want map[string]string) (records []record) {
	keys := maps.Clone(want)
	maps.Copy(keys, have)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, had := have[key]
		switch now, has := want[key]; {
		case !has:
			records = append(records, &configRecord{r, key, nil})
		case !had || was != now:
			records = append(records, &configRecord{r, key, &now})
		}
	}
	return records
}

// dropELR empties the ELR of the partitions whose min.insync.replicas a
// resource decides: under a lower one the high watermark may move on without
// their members. It keeps the ELR where the ISR is empty, as nothing can have
// moved there and no other leader could be found. The records go before those
// of the configuration, so that a half done change is a harmless one.
func (im *Image) dropELR(r Resource) (records []record) {
	for _, t := range im.byName.all() {
		_, own := t.Configs[minISRKey]
		if r.Kind == TopicResource && t.Name != r.Name || r.Kind == BrokerResource && (own || r.Name != "") {
			continue
		}
		for i := range t.Partitions {
			if p := &t.Partitions[i]; len(p.ELR) > 0 && len(p.ISR) > 0 {
				next := *p
				next.ELR = nil
				records = append(records, p.to(t.ID, next, false))
			}
		}
	}
	return records
}
