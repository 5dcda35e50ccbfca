// Package packaging holds what Sawlog is handed out as: the files of a Debian
// package (debian, written by deb), an image (Dockerfile), and manifests for
// Kubernetes. There is no code here but the tests, which run what the files say
// where that can be done without a Docker daemon or a cluster.
package packaging
