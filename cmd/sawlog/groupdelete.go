package main

import (
	"context"
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
	if !dryRun {
		if err := a.confirm("delete " + strings.Join(groups, ", ")); err != nil {
			return err
		}
		if err := admin.DeleteGroups(ctx, k, groups); err != nil {
			return err
		}
	}
	return a.print.Print(map[string]any{"deleted": groups, "dry_run": dryRun}, func() *output.Rows {
		rows := &output.Rows{Head: []string{"DELETED"}}
		for _, g := range groups {
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
	of := map[string][]int32{}
	for _, group := range groups {
		d, err := k.describeGroup(ctx, group)
		if err != nil {
			return err
		}
		for _, p := range d.Positions {
			switch {
			case p.Topic != topic:
				continue
			case p.Member != "":
				return output.Errorf(output.Conflict, "members of group %s read %s: its offsets there can't be deleted", group, topic).
					WithHint("stop them first: sawlog group describe %s names them", group)
			case p.Committed < 0 || p.End < 0: // the group or the topic knows nothing of it
				continue
			}
			of[group] = append(of[group], p.Partition)
			done = append(done, forgotten{group, topic, p.Partition, p.Committed, dryRun})
		}
		if len(of[group]) == 0 {
			return output.Errorf(output.NotFound, "group %s has no offsets of %s", group, topic).WithHint("sawlog group describe %s shows those it has", group)
		}
	}
	if !dryRun {
		if err := a.confirm("delete the offsets of " + topic + " of " + strings.Join(groups, ", ")); err != nil {
			return err
		}
		for _, group := range groups {
			if err := admin.DeleteOffsets(ctx, k, group, topic, of[group]); err != nil {
				return err
			}
		}
	}
	return a.print.Print(done, func() *output.Rows {
		rows := &output.Rows{Head: []string{"GROUP", "TOPIC", "PARTITION", "COMMITTED"}}
		for _, f := range done {
			rows.Add(f.Group, f.Topic, f.Partition, f.Committed)
		}
		return rows
	})
}
