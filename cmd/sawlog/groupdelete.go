package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
)

func (a *app) groupDelete() *cobra.Command {
	var topic string
	var dryRun bool
	c := &cobra.Command{
		Use: "delete GROUP…", Short: "Delete groups and their offsets, or their offsets of a topic", Args: cobra.MinimumNArgs(1),
		Long: "Delete groups that have no members, with all their offsets. With --topic only the\n" +
			"offsets of that topic, also of groups with members, as long as these read other\ntopics.",
		Example: "  sawlog group delete checkers --yes\n  sawlog group delete checkers --topic orders --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			if topic != "" {
				return a.deleteOffsets(cmd.Context(), k, args, topic, dryRun)
			}
			return a.deleteGroups(cmd.Context(), k, args, dryRun)
		},
	}
	c.Flags().StringVar(&topic, "topic", "", "only the offsets of this `TOPIC`")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be deleted")
	return c
}

func (a *app) deleteGroups(ctx context.Context, k *kafka, groups []string, dryRun bool) error {
	for _, g := range groups {
		d, err := k.describeGroup(ctx, g)
		if err == nil {
			err = d.idle()
		}
		if err != nil {
			return err
		}
	}
	gone, err := groups, error(nil)
	if !dryRun {
		if err := a.confirm("delete " + strings.Join(groups, ", ")); err != nil {
			return err
		}
		gone, err = admin.DeleteGroups(ctx, k, groups)
	}
	err = deed(err, "sawlog group list shows those that are there still")
	return a.printDone(len(gone), err, map[string]any{"deleted": gone, "dry_run": dryRun}, func() *output.Rows {
		rows := &output.Rows{Head: []string{"DELETED"}}
		for _, g := range gone {
			rows.Add(g)
		}
		return rows
	})
}

// forgotten is an offset that a group no longer has.
type forgotten struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	DryRun    bool   `json:"dry_run"`
}

// deleteOffsets has groups forget where they stand on a topic.
func (a *app) deleteOffsets(ctx context.Context, k *kafka, groups []string, topic string, dryRun bool) error {
	done := []forgotten{}
	for _, group := range groups {
		d, err := k.describeGroup(ctx, group)
		if err != nil {
			return err
		}
		before := len(done)
		for _, p := range d.Positions {
			switch {
			case p.Topic != topic:
				continue
			case p.Member != "":
				return output.Errorf(output.Conflict, "members of group %s read %s: its offsets there can't be deleted", group, topic).
					WithHint("stop them first: sawlog group describe %s names them", group)
			case p.Committed < 0 || p.Gone: // the group or the topic knows nothing of it
				continue
			}
			done = append(done, forgotten{group, topic, p.Partition, p.Committed, dryRun})
		}
		if len(done) == before {
			return output.Errorf(output.NotFound, "group %s has no offsets of %s", group, topic).WithHint("sawlog group describe %s shows those it has", group)
		}
	}
	var err error
	if !dryRun {
		if err := a.confirm("delete the offsets of " + topic + " of " + strings.Join(groups, ", ")); err != nil {
			return err
		}
		done, err = k.forgetOffsets(ctx, groups, topic, done)
	}
	return a.printDone(len(done), deed(err, "sawlog group describe shows those a group has still"), done, func() *output.Rows {
		rows := &output.Rows{Head: []string{"GROUP", "TOPIC", "PARTITION", "COMMITTED"}}
		for _, f := range done {
			rows.Add(f.Group, f.Topic, f.Partition, f.Committed)
		}
		return rows
	})
}

// forgetOffsets has groups forget offsets, one group after the other until one is
// refused, and returns those that are forgotten.
func (k *kafka) forgetOffsets(ctx context.Context, groups []string, topic string, all []forgotten) (done []forgotten, err error) {
	for _, group := range groups {
		var of []int32
		for _, f := range all {
			if f.Group == group {
				of = append(of, f.Partition)
			}
		}
		gone, err := admin.DeleteOffsets(ctx, k, group, topic, of)
		for _, f := range all {
			if f.Group == group && slices.Contains(gone, f.Partition) {
				done = append(done, f)
			}
		}
		if err != nil && len(done) > 0 {
			if partly, some := errors.AsType[*admin.Partly](err); some {
				err = partly.Err
			}
			err = &admin.Partly{Done: len(done), Of: len(all), Err: err}
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
