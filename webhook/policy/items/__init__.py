"""Fields that are lists of items: defaults, imposed and excluded items, rules on each."""
