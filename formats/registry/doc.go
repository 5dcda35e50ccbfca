// Package registry reads schemas from a registry that speaks the public REST
// surface of Confluent's (Karapace, Apicurio and Redpanda speak it too):
//
//	GET /schemas/ids/{id}                        the schema of an id
//	GET /subjects/{subject}/versions             numbers of a subject's versions
//	GET /subjects/{subject}/versions/{version}   one of them, or latest
//
// What a schema refers to is asked for by subject and version: other Avro types
// by their full names, other .proto files by the paths that import them. A
// Protobuf schema is compiled with all of it into one set, which is what a plan
// holds; files that registries have built in need no reference.
//
// A version of a subject never changes, so a Client asks for each once, however
// many schemas refer to it. A registry that
// answers that it has no such schema is believed; one that does not answer is
// asked again, and then the error is ErrUnavailable.
package registry
