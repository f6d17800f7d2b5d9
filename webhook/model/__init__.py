"""
Words of the domain.

Glossary, one word per thing, the same in code, docs, logs and metrics:

workload    an object that somebody submits
kind        its group, version and kind (`GroupVersionKind`)
mapping     says where the parts of one kind are (`SpecMapping` documents)
selector    a named query of a mapping; it finds places
place       a spot in an object that a selector found, named by its path
path        the keys and indexes that lead to a spot, outermost first
field       a named value at a place, read and written by a reference or a formatter
enforcement one rule on one field, with the policy it comes from
policy      a document that holds enforcements (`WorkloadPolicy`, `GVKPolicy`)
scope       how wide a policy reaches: system, tenant, cluster, department, project
unit        the name of the cluster, department or project
change      one value that mutation wrote
violation   one rule that a workload breaks
decision    the answer to one review, with its reasons
snapshot    everything in force at one moment, compiled
"""
