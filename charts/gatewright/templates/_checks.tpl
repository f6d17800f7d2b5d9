{{/*
What no schema can say: values that contradict each other, and a cluster that is not as they
assume. All of it is said at once. Without a cluster (helm template) nothing is asked.
*/}}
{{- define "gatewright.checks" -}}
{{- $wrong := concat
      (include "gatewright.checks.values" . | fromYamlArray)
      (include "gatewright.checks.durations" . | fromYamlArray)
      (include "gatewright.checks.certificates" . | fromYamlArray)
      (include "gatewright.checks.cluster" . | fromYamlArray)
      (include "gatewright.checks.crds" . | fromYamlArray) -}}
{{- if $wrong -}}
{{- fail (printf "\n\n- %s\n" (join "\n- " $wrong)) -}}
{{- end -}}
{{- end -}}

{{- define "gatewright.checks.values" -}}
{{- $wrong := list -}}
{{- $replicas := int .Values.replicaCount -}}
{{- if ne .Values.image.repository (lower .Values.image.repository) -}}
{{- $wrong = append $wrong (printf "image.repository %s has capital letters, which no image's name has: give the name that it was pushed by" .Values.image.repository) -}}
{{- end -}}
{{- $deadline := .Values.server.jq.deadlineSeconds -}}
{{- $timeout := .Values.registrations.timeoutSeconds -}}
{{- if ge (float64 $deadline) (float64 $timeout) -}}
{{- $wrong = append $wrong (printf "server.jq.deadlineSeconds %v is no shorter than registrations.timeoutSeconds %v: the API server would give up before a query does" $deadline $timeout) -}}
{{- end -}}
{{- if and .Values.crds.adopt (not .Values.crds.install) -}}
{{- $wrong = append $wrong "crds.adopt takes CRDs over that the chart installs, and crds.install is false: set one of the two back" -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if .enabled -}}
{{- $least := toString .minAvailable -}}
{{- $most := toString .maxUnavailable -}}
{{- if not (kindIs "invalid" .maxUnavailable) -}}
{{- if has $most (list "0" "0%") -}}
{{- $wrong = append $wrong (printf "podDisruptionBudget.maxUnavailable %s lets no node be drained: give at least 1, or podDisruptionBudget.enabled=false" $most) -}}
{{- end -}}
{{- else if kindIs "invalid" .minAvailable -}}
{{- $wrong = append $wrong "podDisruptionBudget needs minAvailable or maxUnavailable, or enabled=false" -}}
{{- else -}}
{{- $kept := atoi $least -}}
{{- if hasSuffix "%" $least -}}
{{- /* Kubernetes rounds a percentage up. */ -}}
{{- $kept = div (add (mul (atoi (trimSuffix "%" $least)) $replicas) 99) 100 | int -}}
{{- end -}}
{{- if ge $kept $replicas -}}
{{- $wrong = append $wrong (printf "podDisruptionBudget.minAvailable %s with replicaCount %d lets no node be drained: give more replicas, or podDisruptionBudget.enabled=false" $least $replicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- $wrong = append $wrong "serviceAccount.create=false needs serviceAccount.name: rights are not given to the account that all Pods of the namespace share" -}}
{{- end -}}
{{- with .Values.reconciler.prometheus -}}
{{- if and .tokenSecret.name (not .url) -}}
{{- $wrong = append $wrong "reconciler.prometheus.tokenSecret.name needs reconciler.prometheus.url: a token is sent to no address that a document names" -}}
{{- end -}}
{{- end -}}
{{- with .Values.reconciler.prometheus.url -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" -}}
{{- if and $port (or (lt (atoi $port) 1) (gt (atoi $port) 65535)) -}}
{{- $wrong = append $wrong (printf "reconciler.prometheus.url: there is no port %s" $port) -}}
{{- end -}}
{{- end -}}
{{- with .Values.updateStrategy -}}
{{- $none := list "0" "0%" -}}
{{- $rolling := .rollingUpdate | default dict -}}
{{- if and (eq .type "RollingUpdate") (has (toString $rolling.maxUnavailable) $none) (has (toString $rolling.maxSurge) $none) -}}
{{- $wrong = append $wrong "updateStrategy.rollingUpdate: with maxUnavailable and maxSurge 0 no Pod could ever be replaced" -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := .Values.podLabels -}}
{{- if hasKey (include "gatewright.selectorLabels" $ | fromYaml) $key -}}
{{- $wrong = append $wrong (printf "podLabels must not hold %s, by which the Pods are found" $key) -}}
{{- end -}}
{{- end -}}
{{- $tested := include "gatewright.testNamespace" . -}}
{{- if has $tested (include "gatewright.leftOut" . | fromYamlArray) -}}
{{- $wrong = append $wrong (printf "namespace %s is left out of the webhooks, so that helm test could see nothing refused there: give another one as tests.namespace" $tested) -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- /* Durations that the servers would refuse when they start. */ -}}
{{- define "gatewright.checks.durations" -}}
{{- $wrong := list -}}
{{- range list
      (list "certificates.own.lifetime" .Values.certificates.own.lifetime "10s" "9552h")
      (list "certificates.own.caLifetime" .Values.certificates.own.caLifetime "10s" "175200h")
      (list "server.reports.scanPeriod" .Values.server.reports.scanPeriod "1s" "168h") -}}
{{- $given := include "gatewright.seconds" (index . 1) | float64 -}}
{{- $least := include "gatewright.seconds" (index . 2) | float64 -}}
{{- $most := include "gatewright.seconds" (index . 3) | float64 -}}
{{- if or (lt $given $least) (gt $given $most) -}}
{{- $wrong = append $wrong (printf "%s %s must be from %s to %s" (index . 0) (index . 1) (index . 2) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- /* The seconds of a duration such as 1h30m. */ -}}
{{- define "gatewright.seconds" -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[hms]" . -1 -}}
{{- $number := regexFind "[0-9.]+" . -}}
{{- $sum = addf $sum (mulf (float64 $number) (get (dict "h" 3600.0 "m" 60.0 "s" 1.0) (trimPrefix $number .))) -}}
{{- end -}}
{{- printf "%f" $sum -}}
{{- end -}}

{{- define "gatewright.checks.certificates" -}}
{{- $wrong := list -}}
{{- with .Values.certificates -}}
{{- if and (eq .mode "existingSecret") (not .existingSecret.name) -}}
{{- $wrong = append $wrong "certificates.mode existingSecret needs certificates.existingSecret.name" -}}
{{- end -}}
{{- if and (ne .mode "existingSecret") .existingSecret.name -}}
{{- $wrong = append $wrong (printf "certificates.existingSecret.name is given, but certificates.mode is %s" .mode) -}}
{{- end -}}
{{- if and (ne .mode "certManager") .certManager.issuerRef.name -}}
{{- $wrong = append $wrong (printf "certificates.certManager.issuerRef.name is given, but certificates.mode is %s" .mode) -}}
{{- end -}}
{{- $leaf := include "gatewright.seconds" .own.lifetime | float64 -}}
{{- $authority := include "gatewright.seconds" .own.caLifetime | float64 -}}
{{- if and (eq .mode "own") (gt $leaf $authority) -}}
{{- $wrong = append $wrong (printf "certificates.own.lifetime %s is longer than certificates.own.caLifetime %s: nothing outlives the authority that signed it" .own.lifetime .own.caLifetime) -}}
{{- end -}}
{{- $lives := include "gatewright.seconds" .certManager.duration | float64 -}}
{{- $early := include "gatewright.seconds" .certManager.renewBefore | float64 -}}
{{- if and (eq .mode "certManager") (ge $early $lives) -}}
{{- $wrong = append $wrong (printf "certificates.certManager.renewBefore %s is no shorter than certificates.certManager.duration %s: it would be renewed without end" .certManager.renewBefore .certManager.duration) -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- define "gatewright.checks.cluster" -}}
{{- $wrong := list -}}
{{- range $kind := list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" -}}
{{- range (lookup "admissionregistration.k8s.io/v1" $kind "" "").items -}}
{{- $name := dig "annotations" "meta.helm.sh/release-name" "" .metadata -}}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata -}}
{{- $ours := and (eq $name $.Release.Name) (eq $namespace $.Release.Namespace) -}}
{{- if and $name (eq (dig "labels" "app.kubernetes.io/part-of" "" .metadata) "gatewright") (not $ours) -}}
{{- $wrong = append $wrong (printf "Gatewright is in this cluster already, as release %s in namespace %s, and a cluster takes one: upgrade or uninstall that" $name $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $wrong = concat (uniq $wrong) (include "gatewright.checks.products" . | fromYamlArray) -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- /* What is asked for needs the CRDs of other products. Without a cluster nobody knows them. */ -}}
{{- define "gatewright.checks.products" -}}
{{- $wrong := list -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- $served := .Capabilities.APIVersions -}}
{{- with .Values.monitoring -}}
{{- if and .serviceMonitor.enabled (not ($served.Has "monitoring.coreos.com/v1/ServiceMonitor")) -}}
{{- $wrong = append $wrong "monitoring.serviceMonitor.enabled needs the CRDs of the Prometheus operator, which this cluster doesn't have: install it first, or set it to false" -}}
{{- end -}}
{{- if and .prometheusRule.enabled (not ($served.Has "monitoring.coreos.com/v1/PrometheusRule")) -}}
{{- $wrong = append $wrong "monitoring.prometheusRule.enabled needs the CRDs of the Prometheus operator, which this cluster doesn't have: install it first, or set it to false" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.certificates.mode "certManager") (not ($served.Has "cert-manager.io/v1/Certificate")) -}}
{{- $wrong = append $wrong "certificates.mode certManager needs the CRDs of cert-manager, which this cluster doesn't have: install it first, or take mode own" -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}

{{- define "gatewright.checks.crds" -}}
{{- $wrong := list -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- if and .Values.reconciler.enabled (not .Values.crds.rightsizing) (not (.Capabilities.APIVersions.Has "rightsizing.kubex.ai/v1alpha1")) -}}
{{- $wrong = append $wrong "reconciler.enabled needs the CRDs of rightsizing.kubex.ai, which this cluster doesn't have: crds.rightsizing=true, or reconciler.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- /* What a release no longer renders, Helm deletes, unless the CRD itself says that it is kept. */ -}}
{{- $doomed := list -}}
{{- range $path, $_ := .Files.Glob "files/*crds/*.yaml" -}}
{{- if not (and $.Values.crds.install (or $.Values.crds.rightsizing (hasPrefix "files/crds/" $path))) -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (base $path | trimSuffix ".yaml") -}}
{{- $notes := .metadata.annotations | default dict -}}
{{- $ours := and (eq (get $notes "meta.helm.sh/release-name") $.Release.Name) (eq (get $notes "meta.helm.sh/release-namespace") $.Release.Namespace) -}}
{{- if and $ours (ne (get $notes "helm.sh/resource-policy") "keep") -}}
{{- $doomed = append $doomed .metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $doomed -}}
{{- $wrong = append $wrong (printf "without crds.install or crds.rightsizing Helm would delete CRDs that are not kept, with all documents of theirs: %s. Upgrade with crds.keep=true first" (join ", " $doomed)) -}}
{{- end -}}
{{- if .Values.crds.install -}}
{{- $outdated := list -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $crd := $.Files.Get $path | fromYaml -}}
{{- if and (ne (include "gatewright.crdTaken" (list $ $crd)) "no") (ne (include "gatewright.crdIsCurrent" $crd) "yes") -}}
{{- $outdated = append $outdated $crd.metadata.name -}}
{{- end -}}
{{- end -}}
{{- if $outdated -}}
{{- $wrong = append $wrong (printf "these CRDs are another version's and don't belong to this release, so that Helm would not upgrade them: %s. Take them over, once: --take-ownership --set crds.adopt=true (see docs/install.md)" (join ", " $outdated)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $wrong -}}
{{- end -}}
