"""Numbers to what people look at: figures, tables, the report."""
