{{/*
What no schema can say: values that contradict each other, and a cluster that is not as they
assume. All of it is said at once. Without a cluster (helm template) nothing is asked.
*/}}
{{- define "gatewright.checks" -}}
{{- $wrong := concat
      (include "gatewright.checks.values" . | fromYamlArray)
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
{{- else if or (eq $least "100%") (and (not (hasSuffix "%" $least)) (ge (atoi $least) $replicas)) -}}
{{- $wrong = append $wrong (printf "podDisruptionBudget.minAvailable %s with replicaCount %d lets no node be drained: give more replicas, or podDisruptionBudget.enabled=false" $least $replicas) -}}
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
{{- /* Only whole hours are compared here; the server knows all spellings. */ -}}
{{- $leaf := regexFind "^[0-9]+h$" .own.lifetime | trimSuffix "h" -}}
{{- $authority := regexFind "^[0-9]+h$" .own.caLifetime | trimSuffix "h" -}}
{{- if and (eq .mode "own") $leaf $authority (gt (atoi $leaf) (atoi $authority)) -}}
{{- $wrong = append $wrong (printf "certificates.own.lifetime %s is longer than certificates.own.caLifetime %s: nothing outlives the authority that signed it" .own.lifetime .own.caLifetime) -}}
{{- end -}}
{{- $lives := regexFind "^[0-9]+h$" .certManager.duration | trimSuffix "h" -}}
{{- $early := regexFind "^[0-9]+h$" .certManager.renewBefore | trimSuffix "h" -}}
{{- if and (eq .mode "certManager") $lives $early (ge (atoi $early) (atoi $lives)) -}}
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
{{- toYaml (uniq $wrong) -}}
{{- end -}}

{{- define "gatewright.checks.crds" -}}
{{- $wrong := list -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- if and .Values.reconciler.enabled (not .Values.crds.rightsizing) (not (.Capabilities.APIVersions.Has "rightsizing.kubex.ai/v1alpha1")) -}}
{{- $wrong = append $wrong "reconciler.enabled needs the CRDs of rightsizing.kubex.ai, which this cluster doesn't have: crds.rightsizing=true, or reconciler.enabled=false" -}}
{{- end -}}
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
