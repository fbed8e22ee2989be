"""The base of all rooms: redaction, texts, files."""
