// Package registry reads schemas from a registry that speaks the public REST
// surface of Confluent's (Karapace, Apicurio and Redpanda speak it too):
//
//	GET /schemas/ids/{id}                        the schema of an id
//	GET /subjects/{subject}/versions             numbers of a subject's versions
//	GET /subjects/{subject}/versions/{version}   one of them, or latest
//
// A schema of an id never changes, so each is asked for once. A registry that
// answers that it has no such schema is believed; one that does not answer is
// asked again, and then the error is ErrUnavailable.
package registry
