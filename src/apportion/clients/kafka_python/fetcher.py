"""kafka-python's fetcher under a strategy of ours: no paused partition is forgotten, no jump goes unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.consumer.fetcher import Fetcher

from apportion.clients.group.client_versions import overrides
from apportion.clients.group.finished import OF_SUBSCRIPTION


class ApportionFetcher(Fetcher):  # type: ignore[misc]
    """The client's fetcher, which takes up again the records it parked, and remembers those it could not read.

    outside
        Partition to the next offset of a reader whose log does not have it, until somebody takes it out.
    """

    def __init__(self, client: Any, subscriptions: Any, **configs: Any) -> None:
        self.outside: dict[Any, int] = {}
        super().__init__(client, subscriptions, **configs)

    @overrides
    def fetched_records(self, max_records: int | None = None, update_offsets: bool = True) -> Any:
        """If several partitions are paused one after the other, their fetched records are all returned later. Records
        that the application will finish are noted.
        """
        # A batch that is used up is false but not None, and the client takes a parked one up only in place of None.
        if not self._next_partition_records:  # type: ignore[has-type]
            self._next_partition_records = None
        fetched = super().fetched_records(max_records, update_offsets)
        unfinished = OF_SUBSCRIPTION.get(self._subscriptions)
        if unfinished is not None:
            unfinished.give(record for records in fetched[0].values() for record in records)
        return fetched

    @overrides
    def _parse_fetched_data(self, completed_fetch: Any) -> Any:
        """An offset that the log no longer has is noted, so that a task runner can warn."""
        at = completed_fetch.topic_partition
        state = self._subscriptions.assignment.get(at)
        position = None if state is None else state.position
        records = super()._parse_fetched_data(completed_fetch)
        self._note_resets({at: position})
        return records

    @overrides
    def _handle_offset_for_leader_epoch_response(self, response: Any, requested_positions: Any) -> Any:
        """A log that lost its end is noted, too."""
        truncations = super()._handle_offset_for_leader_epoch_response(response, requested_positions)
        self._note_resets(requested_positions)
        return truncations

    def _note_resets(self, positions: Mapping[Any, Any]) -> None:
        for at, position in positions.items():
            known = position is not None and self._subscriptions.is_assigned(at)
            if known and self._subscriptions.is_offset_reset_needed(at):
                self.outside[at] = position.offset
