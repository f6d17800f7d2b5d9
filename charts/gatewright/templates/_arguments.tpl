{{/*
What the two commands are told: what only the chart knows, and of the values what is set. Every
other setting stays at the program's own default. All take the root context.
*/}}

{{- define "gatewright.serverArguments" -}}
- --service-name={{ include "gatewright.fullname" . }}
- --deployment={{ include "gatewright.fullname" . }}
- --cluster-role={{ include "gatewright.fullname" . }}
- --mutating-configuration={{ .Values.registrations.name }}
- --validating-configuration={{ .Values.registrations.name }}
{{- with .Values.registrations.excludedNamespaces }}
- --excluded-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.certificates }}
{{- if eq .mode "own" }}
- --cert-secret={{ include "gatewright.certificateSecret" $ }}
- --cert-dir=/run/gatewright/certs
- --cert-lifetime={{ .own.lifetime }}
- --ca-lifetime={{ .own.caLifetime }}
{{- else }}
- --tls-cert=/etc/gatewright/certificate/tls.crt
- --tls-key=/etc/gatewright/certificate/tls.key
{{- if eq .mode "certManager" }}
- --ca-bundle=/etc/gatewright/certificate/ca.crt
{{- else if .existingSecret.caKey }}
- --ca-bundle=/etc/gatewright/certificate/{{ .existingSecret.caKey }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.server }}
{{- if .clientCa.secretName }}
- --client-ca=/etc/gatewright/client-ca/ca.crt
{{- end }}
- --log-level={{ .logLevel }}
{{- with .cluster }}
- --cluster-name={{ . }}
{{- end }}
{{- with .scope.projectLabel }}
- --project-label={{ join "," . }}
{{- end }}
{{- with .scope.departmentLabel }}
- --department-label={{ . }}
{{- end }}
- --refuse-early={{ .admission.refuseEarly }}
{{- with .trustedControllers }}
- {{ printf "--trusted-controllers=%s" (join "," .) | quote }}
{{- end }}
- --max-body-bytes={{ int64 .maxBodyBytes }}
- --jq-deadline-seconds={{ .jq.deadlineSeconds }}
- --jq-memory-mib={{ int64 .jq.memoryMib }}
- --write-status={{ .writeStatus }}
- --events={{ .events }}
- --policy-reports={{ .reports.enabled }}
- --scan-period={{ .reports.scanPeriod }}
- --shutdown-delay-seconds={{ .shutdown.delaySeconds }}
- --shutdown-grace-seconds={{ .shutdown.graceSeconds }}
{{- end }}
{{- end -}}

{{- define "gatewright.reconcilerArguments" -}}
- --deployment={{ include "gatewright.fullname" . }}
{{- with .Values.reconciler }}
- --log-level={{ .logLevel }}
{{- with .prometheus }}
{{- with .url }}
- {{ printf "--prometheus-url=%s" . | quote }}
{{- end }}
- --device-label={{ .deviceLabel }}
{{- if .tokenSecret.name }}
- --prometheus-token-file=/etc/gatewright/prometheus-token/token
{{- end }}
{{- if .caConfigMap.name }}
- --prometheus-ca=/etc/gatewright/prometheus-ca/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
