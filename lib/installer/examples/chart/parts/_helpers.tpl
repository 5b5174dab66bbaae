{{- /* The name and version of the chart, as a label. */ -}}
{{- define "config-weaver.chart" -}}
{{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- /* The image of all pods; the tag is the release's, unless another is asked for, and a digest is the one that counts. */ -}}
{{- define "config-weaver.image" -}}
{{ $.Values.image.repository }}:{{ $.Values.image.tag | default $.Chart.AppVersion }}{{ with $.Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
