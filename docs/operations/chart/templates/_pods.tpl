{{- define "recourse.labels" -}}
{app.kubernetes.io/name: recourse, app.kubernetes.io/instance: {{ .release }}, app.kubernetes.io/component: {{ .component }}}
{{- end }}

{{- define "recourse.pod" -}}
# Otherwise the Service of this name would set RECOURSE_PORT to an address.
enableServiceLinks: false
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "recourse.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "recourse.database" -}}
- name: RECOURSE_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.databaseSecret.name }}, key: {{ .Values.databaseSecret.key }}}
{{- end }}

{{- define "recourse.probes" -}}
startupProbe:
  httpGet: {path: /health/live, port: {{ .port }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /health/live, port: {{ .port }}}
  periodSeconds: 15
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /health/ready, port: {{ .port }}}
  periodSeconds: {{ .readyEvery }}
  timeoutSeconds: 5
{{- end }}

{{- define "recourse.files" -}}
volumeMounts:
  - {name: models, mountPath: /srv/recourse/models_store, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "recourse.volumes" -}}
volumes:
  - name: models
    persistentVolumeClaim: {claimName: {{ .Values.models.claim | default (printf "%s-models" .Release.Name) }}, readOnly: true}
  # Bodies of batches while they are read.
  - {name: tmp, emptyDir: {sizeLimit: 1Gi}}
{{- end }}
