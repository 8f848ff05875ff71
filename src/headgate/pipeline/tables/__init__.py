"""Facts into tables: what each table holds, how it is written, merged and read."""
