{{/* Names, labels and the image. All take the root context. */}}

{{- define "gatewright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gatewright.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "gatewright.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- /* 50, so that the suffixes of other objects fit into the 63 of a Service. */ -}}
{{- printf "%s-%s" .Release.Name (include "gatewright.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gatewright.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gatewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: admission
{{- end -}}

{{- define "gatewright.labels" -}}
{{ include "gatewright.commonLabels" . }}
app.kubernetes.io/component: admission
{{- end -}}

{{- define "gatewright.commonLabels" -}}
app.kubernetes.io/name: {{ include "gatewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: gatewright
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gatewright.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "gatewright.fullname" .) -}}
{{- end -}}

{{- define "gatewright.certificateSecret" -}}
{{- if eq .Values.certificates.mode "existingSecret" -}}
{{- .Values.certificates.existingSecret.name -}}
{{- else -}}
{{- printf "%s-certificate" (include "gatewright.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "gatewright.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The owner of our objects that are in no namespace: the release's Namespace, so that they go with
it when somebody deletes it, which Helm isn't asked about. It is known only if it was there before.
*/}}
{{- define "gatewright.ownedByNamespace" -}}
{{- with lookup "v1" "Namespace" "" .Release.Namespace }}
ownerReferences:
  - {apiVersion: v1, kind: Namespace, name: {{ .metadata.name }}, uid: {{ .metadata.uid }}}
{{- end }}
{{- end -}}

{{/* The namespaces that the webhooks leave out, as a YAML list. */}}
{{- define "gatewright.leftOut" -}}
{{- concat (list "kube-system" .Release.Namespace) .Values.registrations.excludedNamespaces | uniq | toYaml -}}
{{- end -}}

{{/* Where `helm test` tries: a namespace that every cluster has, and that is not left out. */}}
{{- define "gatewright.testNamespace" -}}
{{- .Values.tests.namespace | default (without (list "default" "kube-public") .Release.Namespace | first) -}}
{{- end -}}
