{{/*
Whether a CRD, (list root crd), is there and not this release's: "no", or "yes". Helm refuses to
install what is: one that an uninstall has left, under another release's name, or kubectl has made.
With crds.adopt ours are taken for the release's; those of rightsizing.kubex.ai may be in use by
another product, and never are.
*/}}
{{- define "gatewright.crdTaken" -}}
{{- $root := index . 0 -}}
{{- $crd := index . 1 -}}
{{- $taken := "no" -}}
{{- $ours := hasSuffix ".gatewright.io" $crd.spec.group -}}
{{- if not (and $root.Values.crds.adopt $ours) -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $crd.metadata.name -}}
{{- $managed := eq (dig "labels" "app.kubernetes.io/managed-by" "" .metadata) "Helm" -}}
{{- $name := dig "annotations" "meta.helm.sh/release-name" "" .metadata -}}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata -}}
{{- if not (and $managed (eq $name $root.Release.Name) (eq $namespace $root.Release.Namespace)) -}}
{{- $taken = "yes" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $taken -}}
{{- end -}}

{{/* Whether a CRD is in the cluster as it is in the chart, by what it says of its versions. */}}
{{- define "gatewright.crdIsCurrent" -}}
{{- $live := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .metadata.name -}}
{{- if eq (toJson .spec.versions) (toJson (dig "spec" "versions" list $live)) -}}yes{{- else -}}no{{- end -}}
{{- end -}}

{{/* One CRD, (list root path), unless it is somebody else's. */}}
{{- define "gatewright.crd" -}}
{{- $root := index . 0 -}}
{{- $crd := $root.Files.Get (index . 1) | fromYaml -}}
{{- if eq (include "gatewright.crdTaken" (list $root $crd)) "no" -}}
{{- $_ := set $crd.metadata "labels" (include "gatewright.commonLabels" $root | fromYaml) -}}
{{- if $root.Values.crds.keep -}}
{{- $_ := set $crd.metadata "annotations" (dict "helm.sh/resource-policy" "keep") -}}
{{- end }}
---
{{ toYaml $crd }}
{{- end -}}
{{- end -}}
