"""The pipeline's tables: their columns, declared once, and their rules, on columns."""
