"""Fields that jq reads and writes."""
