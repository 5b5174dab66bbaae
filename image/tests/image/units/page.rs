//! The socket and the service of the card's page.

use super::unit_file::units;

#[test]
fn the_page_is_started_by_who_looks_and_holds_nothing() {
    let units = units();
    let (socket, page) = (&units["weaver-page.socket"], &units["weaver-page.service"]);
    assert!(socket.has("Unit", "ConditionPathExists", "!/etc/weaver/page-off"), "weaver.toml turns it off");
    assert_eq!(socket.value("Socket", "ListenStream"), Some("9480"));
    assert_eq!(
        socket.value("Unit", "DefaultDependencies"),
        None,
        "else it starts before boot-config has read"
    );
    assert!(page.0.iter().all(|(section, _, _)| section != "Install"), "no memory until someone looks");
    for (key, value) in [
        ("Sockets", "weaver-page.socket"),
        ("StandardInput", "socket"),
        ("StandardOutput", "journal"),
        ("StandardError", "journal"),
        ("Restart", "on-failure"),
        ("EnvironmentFile", "-/etc/weaver/page.env"),
        ("DynamicUser", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("PrivateNetwork", "yes"),
        ("RestrictAddressFamilies", "AF_UNIX"),
        ("PrivateUsers", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
    ] {
        assert_eq!(page.service(key), Some(value), "{key}");
    }
    for path in ["-/run/weaver", "-/var/lib/weaver", "-/var/lib/rancher", "-/boot"] {
        assert!(page.has("Service", "InaccessiblePaths", path), "{path}");
    }
    let removal = units["weaver-node-agent.service"].service("ExecStopPost");
    assert_eq!(
        removal,
        Some("-/usr/bin/rm -f /run/weaver-page.html /run/weaver-page.state"),
        "without an agent it would be old"
    );
    for group in ["Group", "SupplementaryGroups"] {
        assert_eq!(page.service(group), None, "it would read what that group may");
    }
    let waits = ["After", "Wants"].map(|key| page.words("Unit", key));
    assert!(waits.iter().all(Vec::is_empty), "it shows what the others wait for: {waits:?}");
}
