//! What a stranger writes to a log, which an administrator has explained.

use super::*;

#[test]
fn no_secret_of_a_line_is_in_what_is_said_of_it() {
    for line in [
        r#"level=warning msg="Ignoring invalid endpoint URL 0=https://bot:ghp_0123456789abcdef@reg:x for docker.io: parse \"https://bot:ghp_0123456789abcdef@reg:x\": invalid port""#,
        r#"level=warning msg="Skipping duplicate endpoint URL 1=https://bot:hunter2@reg.lan for docker.io""#,
        r#"pinging container registry x: Get "https://me:hunter2@reg.lan/v2/": http: server gave HTTP response to HTTPS client"#,
        r#"Head "https://me:hunter2@reg.lan:5000/v2/a/manifests/1": x509: certificate signed by unknown authority"#,
        r#"Head "https://me:hunter2@reg.lan/v2/a/manifests/1": dial tcp: lookup reg.lan: no such host"#,
        r#"level=fatal msg="starting kubernetes: preparing server: creating storage endpoint: building kine: pq: no mysql://me:hunter2@tcp(db)/k3s""#,
        r#"level=fatal msg="starting kubernetes: preparing server: creating storage endpoint: building kine: pq: no user=me password=hunter2 host=db""#,
        "Failed to connect: https://pi:6443/?token=hunter2: certificate signed by unknown authority kubectl",
    ] {
        let finding = judge(line).unwrap_or_else(|| panic!("{line}"));
        let all = serde_json::to_string(&finding).unwrap();
        assert!(!["hunter2", "ghp_", "bot"].iter().any(|secret| all.contains(secret)), "{all}");
    }
}
