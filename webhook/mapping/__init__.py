"""Where things are in any kind of object: queries, places, fields."""
