"""One process that keeps asking a cluster, remembers a while, and shows it: a live page, metrics, a small JSON API.

A collector's round makes one immutable ``Snapshot``; everything that is answered is read off the newest one, so that no
request of a browser or of Prometheus ever waits for a broker.
"""
