"""What a rule is: its value, what breaks it, and how that is said."""
