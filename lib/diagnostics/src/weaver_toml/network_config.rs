//! cloud-init's `network-config` and the netplan file that cloud-init makes of
//! it, as far as `[wifi]` must know them.
//!
//! netplan merges all files that speak of one interface: it would join either
//! network. So what another file says about the radio is left out, and the
//! rest of that file stays. Errors never quote the text: it contains passwords.

use std::fmt;

use crate::{
    finding::Place,
    text_file::TextFile,
    yaml_node::{self, SyntaxError, YamlNode, YamlValue},
    yaml_text::{self, Ordered},
};

/// The radio of every Pi. networkd has netplan name it: it cannot be matched otherwise.
pub const RADIO: &str = "wlan0";

/// Another file's word about the radio.
#[derive(Clone, PartialEq, Eq)]
pub struct OtherWifi {
    pub place: Place,
    /// That file without it, as netplan reads it. May contain other secrets.
    pub rest: String,
}

impl fmt::Debug for OtherWifi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, next to {} bytes", self.place, self.rest.len())
    }
}

/// What a file says about the radio; `None` where it says nothing.
///
/// # Errors
/// It is no YAML.
pub fn read(file: &TextFile) -> Result<Option<OtherWifi>, SyntaxError> {
    let root = yaml_node::parse(&file.text)?;
    // cloud-init takes the content of `network:` on its own, too.
    let network = root.get("network").unwrap_or(&root);
    let Some(radio) = network.get("wifis").and_then(|wifis| entry(wifis, RADIO)) else { return Ok(None) };
    let place = Place::at(&file.path, radio.line, radio.column);
    // netplan reads every scalar as a text, whatever its quotes.
    let rest = yaml_text::write(&Ordered(vec![("network", without_radio(network))]));
    Ok(Some(OtherWifi { place, rest }))
}

/// The key itself, whose line says more than that of its value.
fn entry<'n>(map: &'n YamlNode, key: &str) -> Option<&'n YamlNode> {
    map.entries().iter().map(|(name, _)| name).rfind(|name| name.as_str() == Some(key))
}

fn without_radio(network: &YamlNode) -> YamlNode {
    let mut entries = network.entries().to_vec();
    for (name, value) in &mut entries {
        if let (Some("wifis"), YamlValue::Map(wifis)) = (name.as_str(), &mut value.value) {
            wifis.retain(|(name, _)| name.as_str() != Some(RADIO));
        }
    }
    let is_empty = |node: &YamlNode| matches!(&node.value, YamlValue::Map(entries) if entries.is_empty());
    entries.retain(|(name, value)| !(name.as_str() == Some("wifis") && is_empty(value)));
    YamlNode { value: YamlValue::Map(entries), ..network.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGERS: &str = include_str!("../../../../tests/fixtures/imager/wifi/network-config");

    fn of(text: &str) -> Option<OtherWifi> {
        read(&TextFile::new("/n", text)).unwrap()
    }

    #[test]
    fn imagers_radio_is_found_and_left_out_and_its_wired_port_stays() {
        let other = of(IMAGERS).unwrap();
        assert_eq!(other.place, Place::at("/n", 9, 5));
        assert_eq!(
            other.rest,
            "network:\n  version: \"2\"\n  ethernets:\n    eth0:\n      dhcp4: \"true\"\n      dhcp6: \
             \"true\"\n\x20     optional: \"true\"\n"
        );
        assert!(of(&other.rest).is_none(), "nothing of the radio is left");
    }

    #[test]
    fn what_is_not_about_the_radio_stays_as_it_is() {
        let text = "version: 2\nwifis:\n  wlx1: {access-points: {a: {password: \"b: #c\"}}}\n  wlan0: {}\n\
                    ethernets:\n  end0:\n    addresses: [10.0.0.2/24, \"fd00::1/64\"]\n    mtu: 1400\n    \
                    x: ~\n";
        let rest = of(text).unwrap().rest;
        let network = yaml_node::parse(&rest).unwrap();
        let at = |path: &[&str]| {
            path.iter().try_fold(&network, |node, key| node.get(key)).map(|node| node.value.clone())
        };
        let scalar = |text: &str| Some(YamlValue::Scalar(text.to_owned()));
        assert_eq!(at(&["network", "version"]), scalar("2"));
        let others = ["network", "wifis", "wlx1", "access-points", "a", "password"];
        assert_eq!(at(&others), scalar("b: #c"));
        assert_eq!(at(&["network", "wifis", "wlan0"]), None);
        assert_eq!(at(&["network", "ethernets", "end0", "mtu"]), scalar("1400"));
        let addresses = network.get("network").unwrap().get("ethernets").unwrap().get("end0").unwrap();
        let addresses: Vec<_> =
            addresses.get("addresses").unwrap().items().iter().map(YamlNode::as_str).collect();
        assert_eq!(addresses, [Some("10.0.0.2/24"), Some("fd00::1/64")]);
        assert!(rest.ends_with("x: null\n"), "{rest}");
    }

    #[test]
    fn a_file_that_says_nothing_of_the_radio_is_left_alone() {
        for text in [
            "",
            "# nothing\n",
            "network: {config: disabled}\n",
            "network:\n  version: 1\n  config: [{type: physical, name: eth0}]\n",
            "network:\n  version: 2\n  ethernets: {eth0: {dhcp4: true}}\n",
            "network:\n  version: 2\n  wifis: {wlx1: {dhcp4: true}}\n",
            "network:\n  version: 2\n  wifis:\n",
            "- wifis\n",
        ] {
            assert!(of(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn no_yaml_is_an_error_with_none_of_the_text() {
        let file = TextFile::new("/n", "network:\n  wifis:\n    wlan0: {password: \"hunter2}\n");
        let error = read(&file).err().unwrap();
        assert!(!error.message.contains("hunter2"), "{error:?}");
    }
}
