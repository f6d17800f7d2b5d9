{{/*
What the two commands are told: what only the chart knows, and of the values what is set. Every
other setting stays at the program's own default. Both take the root context.
*/}}

{{- define "gatewright.serverArguments" -}}
{{- $name := include "gatewright.fullname" . -}}
{{- $said := list
      (list "service-name" $name)
      (list "deployment" $name)
      (list "cluster-role" $name)
      (list "mutating-configuration" .Values.registrations.name)
      (list "validating-configuration" .Values.registrations.name) -}}
{{- with .Values.registrations.excludedNamespaces -}}
{{- $said = append $said (list "excluded-namespaces" (join "," .)) -}}
{{- end -}}
{{- with .Values.certificates -}}
{{- if eq .mode "own" -}}
{{- $said = concat $said (list
      (list "cert-secret" (include "gatewright.certificateSecret" $))
      (list "cert-dir" "/run/gatewright/certs")
      (list "cert-lifetime" .own.lifetime)
      (list "ca-lifetime" .own.caLifetime)) -}}
{{- else -}}
{{- $said = concat $said (list
      (list "tls-cert" "/etc/gatewright/certificate/tls.crt")
      (list "tls-key" "/etc/gatewright/certificate/tls.key")) -}}
{{- with ternary "ca.crt" .existingSecret.caKey (eq .mode "certManager") -}}
{{- $said = append $said (list "ca-bundle" (printf "/etc/gatewright/certificate/%s" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.server -}}
{{- if .clientCa.secretName -}}
{{- $said = append $said (list "client-ca" "/etc/gatewright/client-ca/ca.crt") -}}
{{- end -}}
{{- $said = append $said (list "log-level" .logLevel) -}}
{{- with .cluster -}}
{{- $said = append $said (list "cluster-name" .) -}}
{{- end -}}
{{- with .scope.projectLabel -}}
{{- $said = append $said (list "project-label" (join "," .)) -}}
{{- end -}}
{{- with .scope.departmentLabel -}}
{{- $said = append $said (list "department-label" .) -}}
{{- end -}}
{{- $said = append $said (list "refuse-early" .admission.refuseEarly) -}}
{{- with .trustedControllers -}}
{{- $said = append $said (list "trusted-controllers" (join "," .)) -}}
{{- end -}}
{{- $said = concat $said (list
      (list "max-body-bytes" (int64 .maxBodyBytes))
      (list "max-connections" (int64 .maxConnections))
      (list "jq-deadline-seconds" .jq.deadlineSeconds)
      (list "jq-memory-mib" (int64 .jq.memoryMib))
      (list "write-status" .writeStatus)
      (list "events" .events)
      (list "policy-reports" .reports.enabled)
      (list "scan-period" .reports.scanPeriod)
      (list "shutdown-delay-seconds" .shutdown.delaySeconds)
      (list "shutdown-grace-seconds" .shutdown.graceSeconds)) -}}
{{- end -}}
{{- include "gatewright.arguments" $said -}}
{{- end -}}

{{- define "gatewright.reconcilerArguments" -}}
{{- $said := list (list "deployment" (include "gatewright.fullname" .)) -}}
{{- with .Values.reconciler -}}
{{- $said = append $said (list "log-level" .logLevel) -}}
{{- with .prometheus -}}
{{- with .url -}}
{{- $said = append $said (list "prometheus-url" .) -}}
{{- end -}}
{{- $said = append $said (list "device-label" .deviceLabel) -}}
{{- if .tokenSecret.name -}}
{{- $said = append $said (list "prometheus-token-file" "/etc/gatewright/prometheus-token/token") -}}
{{- end -}}
{{- if .caConfigMap.name -}}
{{- $said = append $said (list "prometheus-ca" "/etc/gatewright/prometheus-ca/ca.crt") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "gatewright.arguments" $said -}}
{{- end -}}

{{/*
Flags with what they are told, a list of (list NAME VALUE), as a YAML list. A `$` is doubled, since
Kubernetes puts variables where an argument says `$(NAME)`, and takes `$$` for `$`.
*/}}
{{- define "gatewright.arguments" -}}
{{- $arguments := list -}}
{{- range . -}}
{{- $arguments = append $arguments (printf "--%s=%v" (index . 0) (index . 1) | replace "$" "$$") -}}
{{- end -}}
{{- toYaml $arguments -}}
{{- end -}}
