//! What a netplan file of the owner's makes of the radio, and what becomes of `[wifi]` next to it.
//!
//! netplan merges all files that speak of one device. Of a Wi-Fi it joins the networks of each, and what two files
//! say of one network is that of the file whose name comes last: `[wifi]` stays, and both files are reported. A device
//! of two kinds it refuses, and every other network with it: `[wifi]` is left out in favour of the owner's file then. A
//! file that names the radio without a network adds to `[wifi]`, and would be refused without it.

use super::{Config, network_config::RADIO};
use crate::{
    finding::{Code, Finding, Place, Remedy},
    text_file::TextFile,
    yaml_node::{self, SyntaxError},
};

/// What the radio is in such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Radio {
    /// A Wi-Fi with networks of its own.
    Wifi(Place),
    /// Another kind of device.
    NoWifi(Place),
}

/// What a file makes of the radio; `None` where that is nothing which `[wifi]` has to do with.
///
/// # Errors
/// It is no YAML.
pub fn read(file: &TextFile) -> Result<Option<Radio>, SyntaxError> {
    let root = yaml_node::parse(&file.text)?;
    let mut found = None;
    for (kind, devices) in root.get("network").map_or(&[][..], |network| network.entries()) {
        let radio = devices.entries().iter().rfind(|(name, _)| name.as_str() == Some(RADIO));
        let Some((name, radio)) = radio else { continue };
        let place = Place::at(&file.path, name.line, name.column);
        if kind.as_str() != Some("wifis") {
            return Ok(Some(Radio::NoWifi(place)));
        }
        if radio.get("access-points").is_some_and(|networks| !networks.entries().is_empty()) {
            found = Some(Radio::Wifi(place));
        }
    }
    Ok(found)
}

/// Both `file` and one of the owner's speak of the radio. No network is named, for this is reported to the cluster.
pub fn clash(file: &str, config: &Config, owners: Option<&Radio>) -> Option<Finding> {
    let wifi = config.wifi.as_ref()?;
    let (place, message, ours, theirs) = match owners? {
        Radio::Wifi(place) => (
            place,
            format!("{} and {file} both set a Wi-Fi network: either may be joined", place.file),
            "a network that may be joined",
            "another network, or the same one: then the file whose name comes last wins, and [wifi] is \
             90-weaver.yaml",
        ),
        Radio::NoWifi(place) => (
            place,
            format!(
                "{} sets {RADIO} as another device than Wi-Fi, and {file} sets a Wi-Fi network: none is set \
                 up",
                place.file
            ),
            "a network that is left out: netplan would refuse every network, the wired one with it",
            "not below `wifis:`",
        ),
    };
    let finding = Finding::new(Code::UserDataClash, message)
        .saw(Place::at(file, wifi.line, wifi.column), ours)
        .saw(place.clone(), theirs)
        .remedy(Remedy::new(format!("remove {RADIO} from {}, or [wifi] from {file}", place.file)));
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::weaver_toml;

    const NETWORKS: &str = "access-points: {attic: {password: hunter2}}";

    fn of(text: &str) -> Option<Radio> {
        read(&TextFile::new("/n", text)).unwrap()
    }

    #[test]
    fn a_wifi_with_networks_and_another_kind_of_device_are_distinguished() {
        let wifi = format!("network:\n  version: 2\n  wifis:\n    wlan0: {{{NETWORKS}}}\n");
        assert_eq!(of(&wifi), Some(Radio::Wifi(Place::at("/n", 4, 5))));
        for kind in ["ethernets", "bridges", "dummy-devices"] {
            let text = format!("{wifi}  {kind}:\n    wlan0: {{}}\n");
            assert_eq!(of(&text), Some(Radio::NoWifi(Place::at("/n", 6, 5))), "{kind}");
        }
    }

    #[test]
    fn what_adds_to_wifi_or_has_nothing_to_do_with_it_is_left_alone() {
        for network in [
            "wifis: {wlan0: {dhcp6: true}}".to_owned(),
            "wifis: {wlan0: {access-points: {}}}".to_owned(),
            "wifis: {wlan0: }".to_owned(),
            format!("wifis: {{wlx1: {{{NETWORKS}}}}}"),
            "ethernets: {eth0: {dhcp4: true}}, renderer: networkd".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&format!("network: {{{network}}}\n")), None, "{network}");
        }
        for text in ["", "network:\n", "- wifis\n"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_clash_names_both_places_and_no_network() {
        let wifi = "[wifi]\ncountry = \"DE\"\nssid = \"attic\"\npassword = \"hunter2hunter2\"\n";
        let config = weaver_toml::parse(wifi.as_bytes()).unwrap().config;
        for radio in [Radio::Wifi(Place::at("/n", 4, 5)), Radio::NoWifi(Place::at("/n", 4, 5))] {
            let finding = clash("/w", &config, Some(&radio)).unwrap();
            let seen: Vec<_> = finding.evidence.iter().map(|e| e.place.to_string()).collect();
            assert_eq!(seen, ["/w:3:1", "/n:4:5"]);
            assert_eq!(finding.severity(), Severity::Warn);
            let shown = format!("{finding:?}");
            assert!(!shown.contains("attic") && !shown.contains("hunter2"), "{shown}");
            assert!(clash("/w", &Config::default(), Some(&radio)).is_none());
        }
        assert!(clash("/w", &config, None).is_none());
    }

    #[test]
    fn no_yaml_is_an_error_with_none_of_the_text() {
        let file = TextFile::new("/n", "network:\n  wifis:\n    wlan0: {password: \"hunter2}\n");
        let error = read(&file).unwrap_err();
        assert!(!error.message.contains("hunter2"), "{error:?}");
    }
}
