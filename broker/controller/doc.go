// Package controller keeps the metadata of the cluster: which brokers there
// are, which topics and partitions, who leads each and which replicas are in
// sync, and all configurations.
package controller
