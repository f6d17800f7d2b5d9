{{/* Names, labels and the image. All take the root context. */}}

{{- define "gatewright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimAll "-" -}}
{{- end -}}

{{/*
The name of most objects. A Service's begins with a letter and has no dots, which a release's may;
50, so that the suffixes of other objects fit into its 63.
*/}}
{{- define "gatewright.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = .Release.Name | replace "." "-" -}}
{{- if not (contains (include "gatewright.name" .) $name) -}}
{{- $name = printf "%s-%s" $name (include "gatewright.name" .) -}}
{{- end -}}
{{- if regexMatch "^[0-9]" $name -}}
{{- $name = printf "%s-%s" .Chart.Name $name -}}
{{- end -}}
{{- end -}}
{{- $name | trunc 50 | trimAll "-" -}}
{{- end -}}

{{- define "gatewright.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gatewright.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: admission
{{- end -}}

{{- define "gatewright.labels" -}}
{{ include "gatewright.commonLabels" . }}
app.kubernetes.io/component: admission
{{- end -}}

{{- define "gatewright.commonLabels" -}}
app.kubernetes.io/name: {{ include "gatewright.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: gatewright
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gatewright.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "gatewright.fullname" .) -}}
{{- end -}}

{{/*
One for each mode: the servers renew no Secret that they have not made, so a change of the mode
must not leave them one of cert-manager's.
*/}}
{{- define "gatewright.certificateSecret" -}}
{{- if eq .Values.certificates.mode "existingSecret" -}}
{{- .Values.certificates.existingSecret.name -}}
{{- else -}}
{{- include "gatewright.fullname" . }}-{{ ternary "certificate" "serving" (eq .Values.certificates.mode "own") -}}
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
  - {apiVersion: v1, kind: Namespace, name: {{ .metadata.name | quote }}, uid: {{ .metadata.uid | quote }}}
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
