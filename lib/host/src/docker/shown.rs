//! What is read of an engine's descriptions of containers. A state is a text, for podman has some that Docker has not,
//! such as `initialized`: where Docker's words alone are taken, one such container hides all others.
//!
//! Labels and arguments contain the cluster's token: these types are not for printing.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A container in the list of all.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Listed {
    pub id: String,
    pub names: Option<Vec<String>>,
    pub image: Option<String>,
    pub state: Option<String>,
    pub status: Option<String>,
    pub labels: Option<HashMap<String, String>>,
    pub ports: Option<Vec<ListedPort>>,
    pub network_settings: Option<ListedNetworks>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListedPort {
    #[serde(rename = "IP")]
    pub ip: Option<String>,
    pub private_port: u16,
    /// Without one the port is not published.
    pub public_port: Option<u16>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListedNetworks {
    #[expect(clippy::zero_sized_map_values, reason = "a map of JSON, of which nothing but the keys is read")]
    pub networks: Option<HashMap<String, IgnoredAny>>,
}

impl Listed {
    /// The name that the engine shows, without the slash before it.
    pub fn name(&self) -> &str {
        let name = self.names.iter().flatten().next();
        name.map_or("", |name| name.trim_start_matches('/'))
    }

    pub fn label(&self, label: &str) -> Option<&str> {
        self.labels.as_ref()?.get(label).map(String::as_str)
    }
}

/// A container by itself.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Inspected {
    pub args: Option<Vec<String>>,
    pub restart_count: Option<i64>,
    pub state: Option<InspectedState>,
    pub network_settings: Option<InspectedNetworks>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectedState {
    pub status: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectedNetworks {
    /// By port and protocol, such as `6443/tcp`.
    pub ports: Option<HashMap<String, Option<Vec<Binding>>>>,
    pub networks: Option<HashMap<String, Option<JoinedNetwork>>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Binding {
    pub host_ip: Option<String>,
    pub host_port: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JoinedNetwork {
    pub gateway: Option<String>,
    #[serde(rename = "IPPrefixLen")]
    pub ip_prefix_len: Option<i64>,
}
