"""Serializes values as confluent-kafka's serializers do, which register the
schemas themselves. Prints each value in hex, a line each.

usage: serialize.py REGISTRY TOPIC avro|protobuf
"""

import json
import sys

from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

HOUR = 1790812800  # 2026-10-01T00:00:00Z


def avro(registry, conf):
    schema = {
        "type": "record", "name": "View", "namespace": "site",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "path", "type": "string"},
            {"name": "place", "type": ["null", {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}]},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
        ],
    }
    serialize = AvroSerializer(registry, json.dumps(schema), conf=conf)
    for i in range(3):
        place = {"city": "Oslo"} if i else None
        yield serialize, {"at": (HOUR + i) * 1000, "path": f"/{i}", "place": place, "counts": {"a": i}}


def message(file, name):
    m = file.message_type.add()
    m.name = name
    return m


def field(m, name, number, kind, of=None, repeated=False):
    f = m.field.add()
    f.name, f.number, f.type = name, number, kind
    f.label = f.LABEL_REPEATED if repeated else f.LABEL_OPTIONAL
    if of:
        f.type_name = of


def protobuf(registry, conf):
    F = descriptor_pb2.FieldDescriptorProto
    place = descriptor_pb2.FileDescriptorProto(name="site/place.proto", package="site", syntax="proto3")
    field(message(place, "Place"), "city", 1, F.TYPE_STRING)
    view = descriptor_pb2.FileDescriptorProto(name="site/view.proto", package="site", syntax="proto3")
    view.dependency.extend(["site/place.proto", "google/protobuf/timestamp.proto"])
    message(view, "Ping")
    m = message(view, "View")
    field(m, "at", 1, F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field(m, "path", 2, F.TYPE_STRING)
    field(m, "place", 3, F.TYPE_MESSAGE, ".site.Place")
    field(m, "counts", 4, F.TYPE_MESSAGE, ".site.View.CountsEntry", repeated=True)
    entry = m.nested_type.add()
    entry.name, entry.options.map_entry = "CountsEntry", True
    field(entry, "key", 1, F.TYPE_STRING)
    field(entry, "value", 2, F.TYPE_INT32)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(place.SerializeToString())
    pool.AddSerializedFile(view.SerializeToString())
    View = message_factory.GetMessageClass(pool.FindMessageTypeByName("site.View"))
    Place = message_factory.GetMessageClass(pool.FindMessageTypeByName("site.Place"))
    serialize = ProtobufSerializer(View, registry, {**conf, "use.deprecated.format": False})
    for i in range(3):
        yield serialize, View(at=timestamp_pb2.Timestamp(seconds=HOUR + i), path=f"/{i}", place=Place(city="Oslo") if i else None, counts={"a": i})


url, topic, kind = sys.argv[1:]
context = SerializationContext(topic, MessageField.VALUE)
makers = {"avro": avro, "protobuf": protobuf}
for serialize, value in makers[kind](SchemaRegistryClient({"url": url}), {"subject.name.strategy": topic_subject_name_strategy}):
    print(serialize(value, context).hex())
