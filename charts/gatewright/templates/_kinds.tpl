{{/*
Rules for the kinds that the built-in mappings are about. Takes the verbs. tests/chart
compares the list with the mappings.
*/}}
{{- define "gatewright.mappedKinds" -}}
{{- $verbs := . | join ", " -}}
{{- range $group, $plurals := dict
      "\"\"" "pods"
      "apps" "daemonsets, deployments, replicasets, statefulsets"
      "apps.nvidia.com" "nimpipelines, nimservices"
      "argoproj.io" "workflows"
      "batch" "cronjobs, jobs"
      "jobset.x-k8s.io" "jobsets"
      "kubeflow.org" "jaxjobs, mpijobs, notebooks, pytorchjobs, scheduledworkflows, tfjobs, xgboostjobs"
      "kubevirt.io" "virtualmachineinstances"
      "leaderworkerset.x-k8s.io" "leaderworkersets"
      "machinelearning.seldon.io" "seldondeployments"
      "milvus.io" "milvuses"
      "nvidia.com" "dynamographdeployments"
      "ray.io" "rayclusters, rayjobs, rayservices"
      "serving.knative.dev" "services"
      "serving.kserve.io" "inferenceservices, llminferenceservices"
      "slinky.slurm.net" "nodesets"
      "sparkoperator.k8s.io" "sparkapplications"
      "tekton.dev" "pipelineruns, taskruns"
      "trainer.kubeflow.org" "trainjobs"
      "workload.codeflare.dev" "appwrappers"
      "workload.gatewright.io" "distributedinferences, distributedtrainings, inferences, nimservices, trainings, workspaces"
      "workspace.devfile.io" "devworkspaces" }}
- {apiGroups: [{{ $group }}], resources: [{{ $plurals }}], verbs: [{{ $verbs }}]}
{{- end }}
{{- end -}}
