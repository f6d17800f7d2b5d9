"""What is in force now."""
