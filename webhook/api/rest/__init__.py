"""The REST API: documents, what holds where, decisions, and trial reviews."""
