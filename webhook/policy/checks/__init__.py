"""What is wrong with policies that each alone are right."""
