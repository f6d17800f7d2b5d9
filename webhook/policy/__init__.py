"""The rules. Pure: no network, disk or clock."""
