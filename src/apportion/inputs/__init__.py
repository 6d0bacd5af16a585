"""Foreign forms in: pasted text, dumps, tables, live clusters; each becomes groups."""
