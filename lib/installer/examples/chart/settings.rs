//! The values of the chart: a row for each, with its default, its schema and what it means.

use serde_json::{Value, json};

use super::Failure;
use super::manifests::Manifests;

/// A value that the user who installs may set.
#[derive(Clone, Debug)]
pub struct ChartSetting {
    /// As `--set` names it.
    pub path: &'static str,
    /// What the manifests have, or what leaves them as they are.
    pub default: Value,
    pub schema: Value,
    /// A sentence for values.yaml and for the page.
    pub means: &'static str,
}

/// All rows, in the order of the files.
pub fn all(manifests: &Manifests) -> Result<Vec<ChartSetting>, Failure> {
    let groups = [image, operator, webhook, installer, cluster];
    let groups: Result<Vec<_>, _> = groups.into_iter().map(|group| group(manifests)).collect();
    Ok(groups?.concat())
}

const OPERATOR: &str = "Deployment/weaver-operator";
const WEBHOOK: &str = "Deployment/weaver-webhook";

fn row(path: &'static str, default: Value, schema: Value, means: &'static str) -> ChartSetting {
    ChartSetting { path, default, schema, means }
}

/// What the manifest has of its one container.
fn container(manifests: &Manifests, id: &str, field: &str) -> Result<Value, Failure> {
    manifests.at(id, &format!("/spec/template/spec/containers/0/{field}"))
}

fn image(manifests: &Manifests) -> Result<Vec<ChartSetting>, Failure> {
    let image = container(manifests, OPERATOR, "image")?;
    let image =
        image.as_str().and_then(|image| image.rsplit_once(':')).map(|(repository, _)| json!(repository));
    Ok(vec![
        row(
            "image.repository",
            image.unwrap_or_default(),
            word("^[a-z0-9._:/-]+$"),
            "Where the nodes get the image from. No public registry has it: push it to yours, or import it on each node.",
        ),
        row("image.tag", json!(""), word("^[A-Za-z0-9._-]*$"), "Another tag than the version of the chart."),
        row(
            "image.digest",
            json!(""),
            word("^(sha256:[0-9a-f]{64})?$"),
            "Digest of the image, which counts rather than the tag; empty: the tag alone.",
        ),
        row(
            "image.pullPolicy",
            json!("IfNotPresent"),
            json!({"enum": ["Always", "IfNotPresent", "Never"]}),
            "Image pull policy.",
        ),
        row(
            "image.pullSecrets",
            json!([]),
            json!({"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}},
                   "required": ["name"], "additionalProperties": false}}),
            "Secrets of config-weaver with the registry's credentials, as `{name: NAME}`.",
        ),
        row(
            "logLevel",
            json!("info"),
            word("^[A-Za-z0-9_:=,-]+$"),
            "What is logged, by all pods: error, warn, info, debug, or by module as in `info,weaver_operator=debug`.",
        ),
        row("podLabels", json!({}), pod_labels(), "Further labels of all pods."),
        row(
            "podAnnotations",
            json!({}),
            labels(),
            "Annotations of all pods, as `{linkerd.io/inject: disabled}`.",
        ),
    ])
}

fn operator(manifests: &Manifests) -> Result<Vec<ChartSetting>, Failure> {
    Ok(vec![
        row(
            "operator.replicas",
            manifests.at(OPERATOR, "/spec/replicas")?,
            replicas(),
            "One writes at a time; the others wait for its Lease. Several have a PodDisruptionBudget.",
        ),
        row(
            "operator.namespaces",
            json!([]),
            json!({"type": "array", "maxItems": 100, "uniqueItems": true,
                   "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "not": {"const": "config-weaver"}}}),
            "Serve only these namespaces, which exist, and have no rights in others; empty: all. Not config-weaver itself.",
        ),
        row(
            "operator.resources",
            container(manifests, OPERATOR, "resources")?,
            resources(),
            "Resource requests and limits of the operator.",
        ),
        row("operator.nodeSelector", json!({}), labels(), "Labels of the nodes for the operator."),
        row("operator.tolerations", json!([]), tolerations(), "Taints that the operator tolerates."),
        row("operator.affinity", json!({}), map(), "Affinity of the operator."),
        row(
            "operator.priorityClassName",
            json!(""),
            object_name(),
            "PriorityClass of the operator, which is there already; empty: the cluster's default.",
        ),
    ])
}

/// Of the webhook and its certificate.
fn webhook(manifests: &Manifests) -> Result<Vec<ChartSetting>, Failure> {
    Ok(vec![
        row(
            "webhook.replicas",
            manifests.at(WEBHOOK, "/spec/replicas")?,
            replicas(),
            "Replicas of the webhook. Several have a PodDisruptionBudget.",
        ),
        row(
            "webhook.resources",
            container(manifests, WEBHOOK, "resources")?,
            resources(),
            "Resource requests and limits of the webhook.",
        ),
        row("webhook.nodeSelector", json!({}), labels(), "Labels of the nodes for the webhook."),
        row("webhook.tolerations", json!([]), tolerations(), "Taints that the webhook tolerates."),
        row("webhook.affinity", json!({}), map(), "Affinity of the webhook."),
        row(
            "webhook.priorityClassName",
            json!(""),
            object_name(),
            "PriorityClass of the webhook, which is there already; empty: the cluster's default.",
        ),
        row(
            "webhook.certManager.enabled",
            json!(false),
            flag(),
            "Leave the webhook's certificate to cert-manager 1.15 or later, which is there already; else the chart's own Jobs make and renew it.",
        ),
        row(
            "webhook.certManager.issuerRef",
            json!({}),
            // Empty, or with a name; kinds of other groups have names of their own.
            json!({"type": "object", "properties": {"name": {"type": "string", "minLength": 1}, "kind": {"type": "string"},
                   "group": {"type": "string"}}, "additionalProperties": false,
                   "anyOf": [{"maxProperties": 0}, {"required": ["name"]}]}),
            "An issuer of yours that puts its CA into the Secret (`ca.crt`), as `{kind: ClusterIssuer, name: NAME}`; empty: a CA of the chart's own.",
        ),
    ])
}

/// Of the Jobs that install and renew.
fn installer(manifests: &Manifests) -> Result<Vec<ChartSetting>, Failure> {
    Ok(vec![
        row(
            "installer.enabled",
            json!(true),
            flag(),
            "Install CRDs, admission policies and the certificate by a Job before each installation and upgrade; false: run `weaver crd install` yourself, also to renew the certificate, which is then not cert-manager's.",
        ),
        row(
            "installer.resources",
            container(manifests, "Job/weaver-installer", "resources")?,
            resources(),
            "Resource requests and limits of that Job.",
        ),
        row("installer.nodeSelector", json!({}), labels(), "Labels of the nodes for that Job."),
        row("installer.tolerations", json!([]), tolerations(), "Taints that it tolerates."),
        row("installer.affinity", json!({}), map(), "Affinity of that Job."),
        row(
            "installer.priorityClassName",
            json!(""),
            object_name(),
            "PriorityClass of that Job, which is there already; empty: the cluster's default.",
        ),
    ])
}

/// Of the network and of what watches.
fn cluster(manifests: &Manifests) -> Result<Vec<ChartSetting>, Failure> {
    let ports = manifests.at("NetworkPolicy/weaver-operator", "/spec/egress/0/ports")?;
    let ports: Vec<Value> = ports.as_array().into_iter().flatten().map(|port| port["port"].clone()).collect();
    Ok(vec![
        row("networkPolicy.enabled", json!(true), flag(), "Deny every connection that is not needed."),
        row(
            "networkPolicy.apiServerPorts",
            json!(ports),
            json!({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535}}),
            "Ports of the API server, before and behind its Service.",
        ),
        row(
            "networkPolicy.apiServerAddresses",
            json!([]),
            json!({"type": "array", "items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}}),
            "From where the webhook is reached, as `10.0.0.10/32`; empty: from everywhere.",
        ),
        row(
            "monitoring.podMonitor.enabled",
            json!(false),
            flag(),
            "A PodMonitor, for the Prometheus operator, which is there already. The NetworkPolicy lets in Pods of namespaces with the label `weaver.example.com/monitoring=true`: put it on Prometheus' namespace.",
        ),
        row(
            "monitoring.podMonitor.interval",
            json!(""),
            word("^([0-9]+(ms|[smh]))*$"),
            "Scrape interval; empty: Prometheus' default.",
        ),
        row(
            "monitoring.podMonitor.labels",
            json!({}),
            labels(),
            "Labels by which your Prometheus selects it.",
        ),
        row(
            "monitoring.rules.enabled",
            json!(false),
            flag(),
            "A PrometheusRule with the alerts of deploy/monitoring.",
        ),
        row("monitoring.rules.labels", json!({}), labels(), "Labels by which your Prometheus selects it."),
    ])
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn labels() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// Not those by which they are selected.
fn pod_labels() -> Value {
    let mut labels = labels();
    labels["patternProperties"] = json!({"^app\\.kubernetes\\.io/(name|component)$": false});
    labels
}

fn replicas() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 10})
}

fn map() -> Value {
    json!({"type": "object"})
}

fn tolerations() -> Value {
    json!({"type": "array", "items": {"type": "object"}})
}

fn word(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern})
}

/// Of an object, or none.
fn object_name() -> Value {
    word("^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$")
}

/// As a container has them.
fn resources() -> Value {
    let quantities = json!({"type": "object", "additionalProperties": {"type": ["string", "number"]}});
    json!({"type": "object", "properties": {"requests": &quantities, "limits": &quantities}, "additionalProperties": false})
}
