package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/consumer"
)

// Config is one config of a topic or a broker.
type Config struct {
	Name, Value string
	Source      kmsg.ConfigSource
	Doc         string
	Secret      bool // the value is not told
}

// MinISR is the config that says how many copies must be in sync for a record with
// acks=all.
const MinISR = "min.insync.replicas"

// Configs asks for configs of topics, or of a broker, by the resource's name, in
// order of their names: the named ones, or all, with what they are for. A topic
// that is refused is left out, and is the error.
func Configs(ctx context.Context, c consumer.Requestor, kind kmsg.ConfigResourceType, resources, only []string) (map[string][]Config, error) {
	found := map[string][]Config{}
	if len(resources) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeDocumentation = only == nil
	for _, name := range resources {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, only
		req.Resources = append(req.Resources, r)
	}
	resp, err := consumer.Ask[*kmsg.DescribeConfigsResponse](ctx, c, req)
	if err != nil {
		return nil, err
	}
	var all refusals
	for _, r := range resp.Resources {
		if err := refusal("configs of "+r.ResourceName, r.ErrorCode, r.ErrorMessage); err != nil {
			all.add(err)
			continue
		}
		list := make([]Config, len(r.Configs))
		for i, rc := range r.Configs {
			list[i] = Config{Name: rc.Name, Value: deref(rc.Value), Source: rc.Source, Doc: deref(rc.Documentation), Secret: rc.IsSensitive}
		}
		slices.SortFunc(list, func(a, b Config) int { return cmp.Compare(a.Name, b.Name) })
		found[r.ResourceName] = list
	}
	return found, all.err()
}

// LeastInSync reads MinISR among configs; 0 = it is not among them.
func LeastInSync(configs []Config) int {
	for _, c := range configs {
		if n, err := strconv.Atoi(strings.TrimSpace(c.Value)); err == nil && c.Name == MinISR {
			return n
		}
	}
	return 0
}

// Change is what is to become of the configs of a topic or a broker.
type Change struct {
	Kind  kmsg.ConfigResourceType
	Name  string
	Set   [][2]string // name and value
	Unset []string    // brought back to their defaults
}

// AlterConfigs changes configs; dryRun only checks.
func AlterConfigs(ctx context.Context, c consumer.Requestor, changes []Change, dryRun bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = dryRun
	for _, change := range changes {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = change.Kind, change.Name
		for _, kv := range change.Set {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op, c.Value = kv[0], kmsg.IncrementalAlterConfigOpSet, new(kv[1])
			r.Configs = append(r.Configs, c)
		}
		for _, name := range change.Unset {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op = name, kmsg.IncrementalAlterConfigOpDelete
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	resp, err := consumer.Ask[*kmsg.IncrementalAlterConfigsResponse](ctx, c, req)
	if err != nil {
		return err
	}
	var all refusals
	for _, r := range resp.Resources {
		all.add(refusal("configs of "+r.ResourceName, r.ErrorCode, r.ErrorMessage))
	}
	return all.deed()
}
