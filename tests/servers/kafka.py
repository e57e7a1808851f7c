"""Apache Kafka for tests: KRaft nodes of one process each, from Kafka's own Maven artifacts."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, is_open
from tests.support import downloads
from tests.support.eventually import PATIENCE_SECONDS, eventually

CLUSTER_ID = "c2V4dG9uLXRlc3RzLWtyZQ"
JVM = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOGGING = """
<Configuration><Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


class Broker:
    """One node, which is broker and controller."""

    def __init__(self, home: Path, number: int, ports: Sequence[tuple[int, int]], **settings: str) -> None:
        """``ports``: the ports of each node of the cluster, for clients and for controllers."""
        self.home, self.number = home / f"kafka{number}", number
        self.port, control = ports[number]
        self.home.mkdir(parents=True)
        voters = ",".join(f"{n}@127.0.0.1:{c}" for n, (_, c) in enumerate(ports))
        replicas = str(len(ports))
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{control}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.home / "data"),
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "1",
            "default.replication.factor": replicas,
            "min.insync.replicas": str(len(ports) // 2 + 1),
            "transaction.state.log.replication.factor": replicas,
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",
            **settings,
        }
        properties_file = self.home / "server.properties"
        properties_file.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        (self.home / "log4j2.xml").write_text(LOGGING)
        self._env = {k: v for k, v in os.environ.items() if not k.startswith("KAFKA_")}
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.xml'}"
        self._java = ["java", *JVM, logging, "-cp", f"{downloads.jars(downloads.KAFKA)}/*"]
        self._properties_file = str(properties_file)
        self.frozen = False
        self.child = Child(f"kafka{number}", [*self._java, "kafka.Kafka", self._properties_file], home, self._env)

    def format(self) -> None:
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._properties_file]
        completed = subprocess.run(command, capture_output=True, text=True, env=self._env)
        assert completed.returncode == 0, completed.stdout + completed.stderr

    def start(self) -> None:
        """Start the node, or start it again on its data."""
        self.child.start(lambda: is_open(self.port), PATIENCE_SECONDS)

    def listens(self) -> bool:
        """Return whether clients can connect; fail if the node has ended."""
        self.child.check()
        return is_open(self.port)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the node is dead."""
        self.child.kill()

    def freeze(self) -> None:
        """Stop the process and keep its connections, as in a long pause of its machine."""
        assert self.child.pid is not None
        os.kill(self.child.pid, signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        assert self.child.pid is not None
        os.kill(self.child.pid, signal.SIGCONT)
        self.frozen = False

    @property
    def answers(self) -> bool:
        return self.child.exit_code() is None and not self.frozen


class Kafka:
    """A cluster of ``nodes`` nodes."""

    def __init__(self, home: Path, nodes: int = 1, **settings: str) -> None:
        free: set[int] = set()
        while len(free) < 2 * nodes:  # two calls may return the same port
            free.add(free_port())
        ports = [(free.pop(), free.pop()) for _ in range(nodes)]
        self.brokers = [Broker(home, n, ports, **settings) for n in range(nodes)]
        self.address = ",".join(f"127.0.0.1:{b.port}" for b in self.brokers)

    def start(self) -> None:
        """Start every node, and return when they have found each other."""
        for broker in self.brokers:
            broker.format()
            broker.child.start(lambda: True, PATIENCE_SECONDS)
        for broker in self.brokers:
            eventually("Kafka listens", broker.listens)
        admin = AdminClient({"bootstrap.servers": self.address})
        eventually(
            "Kafka's nodes find each other",
            lambda: admin.list_topics(timeout=PATIENCE_SECONDS).brokers,
            lambda found: len(found) == len(self.brokers),
        )

    def stop(self) -> None:
        for broker in self.brokers:
            broker.child.kill()  # its data is temporary, and a clean stop takes seconds


@contextmanager
def kafka(home: Path, nodes: int = 1, **settings: str) -> Iterator[Kafka]:
    """Run a cluster."""
    running = Kafka(home, nodes, **settings)
    try:
        running.start()
        yield running
    finally:
        running.stop()
