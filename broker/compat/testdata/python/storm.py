"""A producer or a member of a group that works through whatever happens and
says what became of each record; Storm.java says how."""

import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer


def say(*words):
    print(*words, flush=True)


def produce(addr, topic, keys, pause):
    p = Producer({"bootstrap.servers": addr, "enable.idempotence": True, "acks": "all", "linger.ms": 1})
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()

    def answered(err, m):
        key, sequence = m.key().decode(), m.value().decode()
        if err is None:
            say("sent", m.partition(), m.offset(), key, sequence)
        else:
            say("failed", key, sequence, err)

    n = 0
    while not done.is_set():
        p.produce(topic, str(n), f"k{n % int(keys)}", on_delivery=answered)
        p.poll(int(pause) / 1000)
        done.wait(int(pause) / 1000)
        n += 1
    left = p.flush(120)
    if left:
        sys.exit(f"{left} records without an answer")


def consume(addr, topic, group):
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    c = Consumer(
        {
            "bootstrap.servers": addr,
            "group.id": group,
            "session.timeout.ms": 10000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )

    def changed(what):
        return lambda _, parts: print(time.strftime("%X"), what, sorted(p.partition for p in parts), file=sys.stderr)

    c.subscribe([topic], on_assign=changed("assigned"), on_revoke=changed("revoked"), on_lost=changed("lost"))
    while not done.is_set():
        answers = c.consume(500, 0.2)
        for m in answers:
            if m.error():
                print(time.strftime("%X"), "error:", m.error(), file=sys.stderr)
        records = [m for m in answers if not m.error()]
        for m in records:
            say("got", m.partition(), m.offset(), m.key().decode(), m.value().decode())
        if not records:
            continue
        try:
            for at in c.commit(asynchronous=False):
                if at.error is None and at.offset >= 0:
                    say("committed", at.partition, at.offset)
        except KafkaException as e:
            print("commit:", e, file=sys.stderr)  # the group has moved on, or nobody answered: it is read again
    c.close()


{"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:])
