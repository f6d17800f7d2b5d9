"""How a pod that nobody makes is told from others, and what this webhook writes into it."""

PROBE_LABEL = "gatewright.io/probe"
# Holds the revision of what was in force.
PROBED = "gatewright.io/probed"
