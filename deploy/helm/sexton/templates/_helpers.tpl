{{- define "sexton.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sexton.labels" -}}
{{ include "sexton.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sexton.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sexton.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sexton.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sexton.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "sexton.sparkImage" -}}
{{- printf "%s:%s" .Values.spark.image.repository (default .Chart.AppVersion .Values.spark.image.tag) -}}
{{- end -}}

{{- define "sexton.podMetadata" -}}
annotations:
  checksum/settings: {{ .Values.settings | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . | indent 2 }}
{{- end }}
labels:
{{ include "sexton.labels" . | indent 2 }}
{{- with .Values.podLabels }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{- define "sexton.podSettings" -}}
enableServiceLinks: false
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{- define "sexton.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end -}}

{{- define "sexton.env" -}}
- name: SEXTON_CONFIG
  value: /etc/sexton/sexton.toml
- name: SEXTON_DEPLOYMENT
  value: {{ required "set deployment: the id that every vault's marker carries" .Values.deployment | quote }}
- name: SEXTON_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "set database.existingSecret: a Secret with the URL of the database" .Values.database.existingSecret }}
      key: {{ .Values.database.urlKey }}
{{- if .Values.database.liveUrlKey }}
- name: SEXTON_LIVE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.existingSecret }}
      key: {{ .Values.database.liveUrlKey }}
{{- end }}
- name: SEXTON_TEMPORAL__ADDRESS
  value: {{ .Values.temporal.address | quote }}
- name: SEXTON_TEMPORAL__NAMESPACE
  value: {{ .Values.temporal.namespace | quote }}
{{- if .Values.temporal.apiKey.existingSecret }}
- name: SEXTON_TEMPORAL__API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.temporal.apiKey.existingSecret }}
      key: {{ .Values.temporal.apiKey.key }}
{{- end }}
{{- if .Values.temporal.tls.enabled }}
- name: SEXTON_TEMPORAL__TLS
  value: "true"
{{- if and .Values.temporal.tls.existingSecret .Values.temporal.tls.caKey }}
- name: SEXTON_TEMPORAL__TLS_CA
  value: /etc/sexton/temporal-tls/{{ .Values.temporal.tls.caKey }}
{{- end }}
{{- if and .Values.temporal.tls.existingSecret .Values.temporal.tls.certKey }}
- name: SEXTON_TEMPORAL__TLS_CERT
  value: /etc/sexton/temporal-tls/{{ .Values.temporal.tls.certKey }}
- name: SEXTON_TEMPORAL__TLS_KEY
  value: /etc/sexton/temporal-tls/tls.key
{{- end }}
{{- end }}
{{- if .Values.caCerts.configMap }}
- name: SEXTON_CA_CERTS
  value: /etc/sexton/ca/{{ .Values.caCerts.key }}
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range .Values.secretEnv }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- end -}}

{{- define "sexton.volumeMounts" -}}
- name: settings
  mountPath: /etc/sexton/sexton.toml
  subPath: sexton.toml
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if and .Values.temporal.tls.enabled .Values.temporal.tls.existingSecret }}
- name: temporal-tls
  mountPath: /etc/sexton/temporal-tls
  readOnly: true
{{- end }}
{{- if .Values.caCerts.configMap }}
- name: ca
  mountPath: /etc/sexton/ca
  readOnly: true
{{- end }}
{{- end -}}

{{- define "sexton.volumes" -}}
- name: settings
  configMap:
    name: {{ include "sexton.fullname" . }}
{{- if and .Values.temporal.tls.enabled .Values.temporal.tls.existingSecret }}
- name: temporal-tls
  secret:
    secretName: {{ .Values.temporal.tls.existingSecret }}
{{- end }}
{{- if .Values.caCerts.configMap }}
- name: ca
  configMap:
    name: {{ .Values.caCerts.configMap }}
{{- end }}
{{- end -}}

{{- define "sexton.apiScheme" -}}
{{- if .Values.api.tls.existingSecret -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}
