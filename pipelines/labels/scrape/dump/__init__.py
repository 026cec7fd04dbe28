"""A Wikidata dump instead of requests: its text in blocks, and what the store lacks taken from it."""
