"""Foreign bytes: read, written, mistreated, and compared with other people's codecs."""
