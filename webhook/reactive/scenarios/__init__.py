"""The same decisions replayed without a cluster, drawn, and recorded from one."""
