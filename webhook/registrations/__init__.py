"""Our registrations with the API server: what they should say, and keeping them so."""
