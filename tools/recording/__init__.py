"""How the demo's dump is made: a scripted workload on a real cluster, written down with Kafka's own word on it."""
