//! `NodeReport`: what the node agent found on one node.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::readable;

/// A NodeReport has no spec: it is named like its node and says what was found there.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "weaver.example.com",
    version = "v1beta1",
    kind = "NodeReport",
    plural = "nodereports",
    singular = "nodereport",
    shortname = "nr",
    category = "weaver",
    no_spec,
    status = "NodeReportStatus",
    doc = "What the node agent found on the node of this name.",
    printcolumn(name = "Board", type_ = "string", json_path = ".status.board"),
    printcolumn(name = "K3s", type_ = "string", json_path = ".status.k3sVersion"),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="MemoryCgroupEnabled")].status"#
    ),
    printcolumn(
        name = "Names",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="ServingNamesCovered")].status"#
    ),
    printcolumn(
        name = "Clock",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="ClockSynchronised")].status"#
    ),
    printcolumn(name = "Up", type_ = "date", json_path = ".status.system.bootTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct NodeReportFields {}

/// What was found.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeReportStatus {
    /// The board, as its device tree or firmware names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board: Option<String>,

    /// The operating system, as its os-release names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,

    /// Release of the running kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,

    /// Version of k3s.
    #[serde(rename = "k3sVersion", skip_serializing_if = "Option::is_none")]
    pub k3s_version: Option<String>,

    /// Version of the node agent that wrote this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,

    /// What the node was booted from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_medium: Option<String>,

    /// Memory, load, temperature, disks and boot time, rounded and written when a rounded value changes: not a live
    /// measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<NodeSystem>,

    /// The certificate that the API server shows on this node, by the last handshakes. A node that joins another has none
    /// of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<NodeServing>,

    /// The steps of this boot, by the time at which each was first seen. Only where systemd runs them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["step"])
    )]
    pub boot: Vec<NodeBootStep>,

    /// MemoryCgroupEnabled, ServingNamesCovered, ClockSynchronised, StorageHealthy, PowerHealthy; `Unknown`
    /// where the kernel has no reader.
    #[serde(deserialize_with = "readable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// What was found, one entry for each code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["code"])
    )]
    pub findings: Vec<Finding>,
}

/// How a machine is; what could not be read is left out.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSystem {
    /// When it was started, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub boot_time: Option<String>,

    /// Memory of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<NodeMemory>,

    /// Its load average of 15 minutes in percent of one processor, to 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<i64>,

    /// Its hottest sensor in degrees Celsius, to 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i64>,

    /// The file system of the root, and that of k3s' data where it is another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 2),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"])
    )]
    pub disks: Vec<NodeDisk>,
}

/// The memory of a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["totalMiB", "availableMiB"]))]
pub struct NodeMemory {
    /// What the kernel has.
    #[serde(rename = "totalMiB")]
    pub total_mib: i64,

    /// What programs could get without swapping, to a sixteenth of the total.
    #[serde(rename = "availableMiB")]
    pub available_mib: i64,
}

/// A file system.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["path", "sizeMiB", "freeMiB"]))]
pub struct NodeDisk {
    /// A path on it: `/`, or the directory of k3s' data.
    #[schemars(length(max = 4096))]
    pub path: String,

    /// Size in MiB.
    #[serde(rename = "sizeMiB")]
    pub size_mib: i64,

    /// What is free, to a twentieth of the size.
    #[serde(rename = "freeMiB")]
    pub free_mib: i64,
}

/// What a client sees of the API server's certificate.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeServing {
    /// The names that are configured, and those that the certificate has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub names: Vec<NodeServingName>,

    /// When the certificate expires; a start of k3s in the months before renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub certificate_expires: Option<String>,

    /// When the CA expires that signed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ca_expires: Option<String>,
}

/// A name of the API server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["name", "configured", "served"]))]
pub struct NodeServingName {
    /// A host name, a wildcard or an address.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Whether k3s' configuration asks for it.
    pub configured: bool,

    /// Whether a client that verifies it gets a connection; of a name that is not configured, whether the certificate has
    /// it.
    pub served: bool,
}

/// A step of a boot.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["step", "seconds"]))]
pub struct NodeBootStep {
    /// `BootFilesApplied`, `HostChecked`, `K3sStarted`, `K3sReady`, `WebhookReady`, `OperatorReady`; later releases may
    /// have others.
    #[schemars(length(min = 1, max = 32))]
    pub step: String,

    /// Seconds after the kernel started.
    pub seconds: i64,
}

/// A finding of the node agent.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["code", "severity"]))]
pub struct Finding {
    /// Its stable code, such as `N-01`.
    #[schemars(length(min = 1, max = 32))]
    pub code: String,

    /// How bad it is: `ok`, `warn`, `fail`, or `unknown` where it could not be judged. Later releases may have others:
    /// treat an unknown value as the severity of the code.
    #[schemars(with = "String")]
    pub severity: Severity,

    /// What was found, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// What it was seen by: file and line, or an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub evidence: Vec<String>,

    /// Remedy: what to do, with commands.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Needs attention.
    Warn,
    /// Broken.
    Fail,
    /// Could not be judged.
    #[default]
    Unknown,
    /// A value that this version does not have.
    #[serde(other)]
    Other,
}
