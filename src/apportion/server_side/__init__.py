"""The plans of Kafka's group coordinator for groups of the new protocol (KIP-848), on plain numbers and ids.

``java_hash`` is the order in which ``java.util.HashMap`` hands its entries on, ``uniform`` the coordinator's default
assignor with every order laid down by the caller. The strategies ``broker-uniform`` and ``broker-range`` are its doors.
"""
