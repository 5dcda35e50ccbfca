package broker

import (
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterReplicaLogDirs, versions 1–2 (KIP-113): a broker has one data directory,
// so a replica can only be asked to stay in it.

func (b *Broker) alterReplicaLogDirs(r *kmsg.AlterReplicaLogDirsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	for i := range r.Dirs {
		own := filepath.Clean(r.Dirs[i].Dir) == b.dataDirectory()
		for _, ask := range r.Dirs[i].Topics {
			out := kmsg.NewAlterReplicaLogDirsResponseTopic()
			out.Topic = ask.Topic
			t := b.topics.name([]byte(ask.Topic))
			for _, partition := range ask.Partitions {
				part := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				part.Partition = partition
				switch _, err := hosted(t, partition); {
				case !own:
					part.ErrorCode = kerr.LogDirNotFound.Code
				case err != nil:
					part.ErrorCode = codeOf(err)
				}
				out.Partitions = append(out.Partitions, part)
			}
			m.Topics = append(m.Topics, out)
		}
	}
	return m
}

// dataDirectory is the one log directory, by the name replies give it.
func (b *Broker) dataDirectory() string {
	dir, err := filepath.Abs(b.config.Dir)
	if err != nil {
		return filepath.Clean(b.config.Dir) // where the working directory is gone
	}
	return dir
}
