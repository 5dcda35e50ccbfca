package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sawlog/cmd/sawlog/output"
	"sawlog/consumer/admin"
)

type clusterState struct {
	Cluster    string          `json:"cluster"`
	Controller int32           `json:"controller"` // -1 = none now
	Quorum     *quorumState    `json:"quorum"`     // null = there is no active controller that could tell
	Brokers    brokerCounts    `json:"brokers"`
	Partitions partitionCounts `json:"partitions"`
	// Troubles are the partitions that are not as they should be.
	Troubles []troubledPartition `json:"troubles"`
}

type quorumState struct {
	Leader    int32          `json:"leader"`
	Term      int32          `json:"term"`
	Committed int64          `json:"committed"`
	Voters    []quorumMember `json:"voters"`
	Observers []quorumMember `json:"observers"`
}

type quorumMember struct {
	Node int32  `json:"node"`
	End  *int64 `json:"end"` // null = not told
	Lag  *int64 `json:"lag"`
}

type brokerCounts struct {
	Total  int     `json:"total"`
	Up     int     `json:"up"`
	Fenced []int32 `json:"fenced"`
}

type partitionCounts struct {
	Total           int `json:"total"`
	UnderReplicated int `json:"under_replicated"`
	UnderMinISR     int `json:"under_min_isr"`
	Offline         int `json:"offline"`
	Reassigning     int `json:"reassigning"`
}

type troubledPartition struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Leader    int32    `json:"leader"`
	Replicas  []int32  `json:"replicas"`
	ISR       []int32  `json:"isr"`
	Trouble   []string `json:"trouble"` // offline, under_min_isr, under_replicated
}

// troublesShown bounds the partitions a person is shown; JSON has all.
const troublesShown = 20

func (a *app) clusterStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell whether a cluster is whole", Args: cobra.NoArgs,
		Long: `Tell who controls the cluster, how its brokers are and whether all partitions
have a leader and all their copies. Ends with exit code 1 when a partition has no
leader; partitions that lack a copy are told and are no failure.`,
		Example: "  sawlog cluster status\n  sawlog cluster status -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, f, err := a.fleet(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			s := clusterState{Cluster: f.ID, Controller: f.Controller, Brokers: brokerCounts{Fenced: []int32{}}}
			for _, b := range f.Brokers {
				if s.Brokers.Total++; b.Fenced {
					s.Brokers.Fenced = append(s.Brokers.Fenced, b.ID)
				} else {
					s.Brokers.Up++
				}
			}
			quorum, err := admin.DescribeQuorum(cmd.Context(), k)
			if err != nil {
				return err
			}
			s.Quorum = quorumOf(quorum)
			if err := s.look(cmd.Context(), k, f); err != nil {
				return err
			}
			if err := a.print.Print(s, s.rows); err != nil || s.Partitions.Offline == 0 {
				return err
			}
			return output.Errorf(output.Failed, "%d partitions have no leader", s.Partitions.Offline).
				WithHint("start their brokers, or lose records by sawlog cluster elect --unclean")
		},
	}
}

// look finds what is wrong with the partitions.
func (s *clusterState) look(ctx context.Context, k *kafka, f *fleet) error {
	var ask []string
	for i := range f.partitions {
		if p := f.partitions[i]; p.Lacking() && !slices.Contains(ask, p.Topic) {
			ask = append(ask, p.Topic)
		}
	}
	want, err := k.minISR(ctx, ask)
	if err != nil {
		return err
	}
	s.Troubles = []troubledPartition{}
	for i := range f.partitions {
		p := f.partitions[i]
		var trouble []string
		s.Partitions.Total++
		if p.Moving() {
			s.Partitions.Reassigning++
		}
		if p.Offline() {
			s.Partitions.Offline++
			trouble = append(trouble, "offline")
		}
		if p.UnderMinISR(want[p.Topic]) {
			s.Partitions.UnderMinISR++
			trouble = append(trouble, "under_min_isr")
		}
		if p.Lacking() {
			s.Partitions.UnderReplicated++
			trouble = append(trouble, "under_replicated")
		}
		if trouble != nil {
			s.Troubles = append(s.Troubles, troubledPartition{p.Topic, p.Index, p.Leader, p.Replicas, p.ISR, trouble})
		}
	}
	return nil
}

func (s *clusterState) rows() *output.Rows {
	rows := &output.Rows{}
	rows.Add("cluster", s.Cluster)
	rows.Add("controller", idOrDash(s.Controller))
	if q := s.Quorum; q != nil {
		rows.Add("term", q.Term)
		rows.Add("committed", q.Committed)
		rows.Add("voters", membersText(q.Voters))
		rows.Add("observers", membersText(q.Observers))
	}
	brokers := fmt.Sprintf("%d of %d up", s.Brokers.Up, s.Brokers.Total)
	if len(s.Brokers.Fenced) > 0 {
		brokers += fmt.Sprintf(", fenced: %v", s.Brokers.Fenced)
	}
	rows.Add("brokers", brokers)
	rows.Add("partitions", s.Partitions.Total)
	rows.Add("under-replicated", s.Partitions.UnderReplicated)
	rows.Add("under min ISR", s.Partitions.UnderMinISR)
	rows.Add("offline", s.Partitions.Offline)
	rows.Add("reassigning", s.Partitions.Reassigning)
	for i, t := range s.Troubles {
		if i == troublesShown {
			rows.Add("…", fmt.Sprintf("%d more", len(s.Troubles)-i))
			break
		}
		rows.Add(fmt.Sprintf("%s/%d", t.Topic, t.Partition), strings.Join(t.Trouble, ", "), "leader "+idOrDash(t.Leader), fmt.Sprintf("replicas %v", t.Replicas), fmt.Sprintf("isr %v", t.ISR))
	}
	return rows
}

func idOrDash(id int32) string {
	if id < 0 {
		return "-"
	}
	return fmt.Sprint(id)
}

func membersText(members []quorumMember) string {
	list := make([]string, 0, len(members))
	for _, m := range members {
		text := fmt.Sprint(m.Node)
		if m.Lag != nil && *m.Lag > 0 {
			text += fmt.Sprintf(" (%d behind)", *m.Lag)
		}
		list = append(list, text)
	}
	return orDash(strings.Join(list, ", "))
}

// quorumOf is a quorum as the verb tells it; nil of none.
func quorumOf(q *admin.Quorum) *quorumState {
	if q == nil {
		return nil
	}
	members := func(told []admin.Member) []quorumMember {
		list := make([]quorumMember, len(told))
		for i, m := range told {
			if list[i].Node = m.Node; m.End >= 0 {
				list[i].End, list[i].Lag = &m.End, &m.Lag
			}
		}
		return list
	}
	return &quorumState{q.Leader, q.Term, q.Committed, members(q.Voters), members(q.Observers)}
}

type brokerLine struct {
	ID       int32  `json:"id"`
	Addr     string `json:"address"`
	Rack     string `json:"rack"`
	State    string `json:"state"` // up, fenced
	Control  bool   `json:"controller"`
	Leads    int    `json:"leads"`
	Replicas int    `json:"replicas"`
	Prefers  int    `json:"preferred"`
}

func (a *app) clusterBrokers() *cobra.Command {
	return &cobra.Command{
		Use: "brokers", Short: "List brokers and what they carry", Args: cobra.NoArgs,
		Long: `List all brokers the cluster knows. A fenced one is out of service: it leads
nothing. LEADS counts the partitions a broker leads, REPLICAS those it holds a
copy of, PREFERRED those it would lead if all brokers were up.`,
		Example: "  sawlog cluster brokers -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, f, err := a.fleet(cmd.Context())
			if err != nil {
				return err
			}
			defer k.Close()
			list := []brokerLine{}
			for _, b := range f.Brokers {
				line := brokerLine{b.ID, b.Addr, b.Rack, "up", b.ID == f.Controller, b.Leads, b.Holds, b.Prefers}
				if b.Fenced {
					line.State = "fenced"
				}
				list = append(list, line)
			}
			return a.print.Print(list, func() *output.Rows {
				rows := &output.Rows{Head: []string{"BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS", "PREFERRED", ""}}
				for _, b := range list {
					note := ""
					if b.Control {
						note = "controller"
					}
					rows.Add(b.ID, b.Addr, orDash(b.Rack), b.State, b.Leads, b.Replicas, b.Prefers, note)
				}
				return rows
			})
		},
	}
}
