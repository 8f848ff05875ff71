"""Programs for those who work on Headgate: pages that are generated, long counts."""
