package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"sawlog/broker/vfs"
)

// DescribeLogDirs, versions 1–5 (KIP-113): the one data directory, with the size
// of every log or of those asked for, and the disk's size and room (KIP-827).

func (b *Broker) describeLogDirs(r *kmsg.DescribeLogDirsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = b.dataDirectory()
	dir.TotalBytes, dir.UsableBytes = b.diskSpace()
	if r.Topics == nil {
		for _, meta := range b.controller.Image().Topics() {
			dir.Topics = b.logSizes(dir.Topics, meta.Name, func(int32) bool { return true })
		}
	}
	for i := range r.Topics {
		asked := make(map[int32]bool, len(r.Topics[i].Partitions))
		for _, partition := range r.Topics[i].Partitions {
			asked[partition] = true
		}
		dir.Topics = b.logSizes(dir.Topics, r.Topics[i].Topic, func(partition int32) bool { return asked[partition] })
	}
	m.Dirs = append(m.Dirs, dir)
	return m
}

// logSizes adds the sizes of a topic's logs.
func (b *Broker) logSizes(out []kmsg.DescribeLogDirsResponseDirTopic, name string, want func(partition int32) bool) []kmsg.DescribeLogDirsResponseDirTopic {
	t := b.topics.name([]byte(name))
	if t == nil {
		return out
	}
	dt := kmsg.NewDescribeLogDirsResponseDirTopic()
	dt.Topic = name
	for i, p := range t.partitions {
		if p == nil || !want(int32(i)) {
			continue
		}
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size = int32(i), p.Log().Size()
		dt.Partitions = append(dt.Partitions, part)
	}
	if len(dt.Partitions) == 0 {
		return out
	}
	return append(out, dt)
}

// diskSpace is the size of the file system under the data directory and what is
// free of it, or −1 where there is none.
func (b *Broker) diskSpace() (total, usable int64) {
	var st unix.Statfs_t
	if b.config.FS != vfs.OS || unix.Statfs(b.config.Dir, &st) != nil {
		return -1, -1
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize
}
