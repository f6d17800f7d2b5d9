"""
Documents as people write them: YAML and JSON text, one or many in a file.

`documents` reads a file, whatever it is written in; `json_reader` and `yaml_reader` each read one
of the two, `scalars` says what a plain word of YAML means, `yaml_writer` writes.

Text stays text. Plain scalars are read by the core schema of YAML 1.2, so `no`, `on`, `12:30`,
`1_000` and `2024-01-01` are strings. kubectl, which follows YAML 1.1, makes some of these
booleans or numbers; the field that gets such a text says so, while a text field that silently
got `false` would not. Where 1.2 reads a *number* otherwise than kubectl, kubectl counts:
`defaultMode: 0644` is octal, 420. A text that has no meaning in JSON, or that readers
disagree on (duplicate keys, a late `<<`, `.nan`), is an error with its line. In a `GpuScenario`
`.nan` and `.inf` are the texts that Prometheus writes: samples may be these.

An error says what is wrong and in which line; of what stands there it quotes keys only, since a
value may be a secret.
"""

from webhook.model.manifests.documents import MAX_BYTES, Manifest, load_documents, load_file
from webhook.model.manifests.raw import MAX_DEPTH
from webhook.model.manifests.yaml_writer import dump_yaml

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "Manifest",
    "dump_yaml",
    "load_documents",
    "load_file",
]
