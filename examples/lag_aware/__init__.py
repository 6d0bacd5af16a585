"""A hot partition, under range and under lag-aware."""
