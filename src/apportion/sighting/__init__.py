"""A group as it was seen, judged, and what is measured of it: what every output shows, whatever the source."""
