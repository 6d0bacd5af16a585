"""Readers of foreign formats: pasted text, dumps, tables, live clusters; each becomes groups."""
