package output

import "github.com/twmb/franz-go/pkg/kerr"

// kafkaExit is the exit code of what a broker refused, and the way out.
func kafkaExit(err *kerr.Error) (code int, hint string) {
	switch err {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID:
		return NotFound, "sawlog topic list"
	case kerr.GroupIDNotFound:
		return NotFound, "sawlog group list"
	case kerr.TopicAlreadyExists:
		return Conflict, "sawlog topic alter changes it, sawlog topic describe shows it"
	case kerr.RequestTimedOut, kerr.NetworkException:
		return Unavailable, "what was asked for may be done all the same: look before you try again"
	case kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic:
		return Conflict, "stop the group's members first: sawlog group describe names them"
	case kerr.InvalidUpdateVersion:
		return Conflict, "sawlog cluster brokers names the brokers; all must run the release that knows the level"
	case kerr.InvalidTopicException, kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidConfig,
		kerr.InvalidRequest, kerr.InvalidReplicaAssignment, kerr.PolicyViolation, kerr.InvalidGroupID:
		return Usage, "sawlog topic describe --all shows a topic's settings, sawlog cluster brokers where copies may be"
	case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed:
		return Auth, "the brokers ask for a user who may do this"
	case kerr.OffsetOutOfRange:
		return Mismatch, "sawlog topic offsets shows where the log starts and ends"
	}
	if err.Retriable {
		return Unavailable, "try again; sawlog cluster status tells who answers"
	}
	return Failed, ""
}
