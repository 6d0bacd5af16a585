"""A group as it was seen, judged, and its measures: the content of every output, from any source."""
