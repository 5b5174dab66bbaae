//! The host as it is.

use crate::weaver_toml::network_config::OtherWifi;
use crate::weaver_toml::owners_netplan::Radio;
use crate::weaver_toml::registries::RegistriesFile;
use crate::weaver_toml::secret::Secret;

/// What must be known of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownHost {
    /// The node's name in the role that is asked for, once it is pinned.
    pub pinned: Option<String>,
    /// Whether k3s has registered a node in that role.
    pub is_registered: bool,
    /// What the node was registered as when the card was a server, where it shall be an agent and that is not pinned.
    pub server_name: Option<String>,
    /// The node's name in k3s' own configuration, ours left out.
    pub configured: Option<String>,
    /// The content of `/etc/hostname`, without white space.
    pub hostname: Option<String>,
    pub hosts: Hosts,
    /// The user that user-data makes.
    pub user: Option<String>,
    /// Whether a token was imported earlier for the role that is asked for.
    pub has_token: bool,
    /// Whether that token proves whose server takes it.
    pub has_whole_token: bool,
    /// The password of the Wi-Fi that was imported earlier.
    pub wifi_password: Option<Secret>,
    /// The Wi-Fi that cloud-init asks for.
    pub other_wifi: Option<OtherWifi>,
    /// What a netplan file of the owner's makes of the radio.
    pub owners_radio: Option<Radio>,
    /// The public key of the source of updates, where one is asked for and can be used.
    pub update_key: Option<String>,
    /// What tells this machine from others, 32 hexadecimal digits.
    pub machine_id: Option<String>,
    /// k3s' file of registries.
    pub registries: RegistriesFile,
    /// Files of ours in [`super::KEYS_DIR`], whole paths.
    pub key_files: Vec<String>,
}

/// `/etc/hosts` as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosts {
    #[default]
    Missing,
    Text(String),
    /// It is there and is no text: left alone.
    Unreadable,
}
