"""What every room stands on: redaction, words, files."""
