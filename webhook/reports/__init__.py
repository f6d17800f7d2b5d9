"""What already runs and breaks a rule, kept as reports that the tools people have can show."""
