//! What users reported of other tools and of k3s, as they showed it, and the right message for each.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{CERTIFICATE, KEY};

/// A file with lines of a log, and the codes that are right for them.
const LOGS: &[(&str, &[&str])] = &[
    ("01-token-ca-hash-input.log", &["J-02"]),
    // The server of the same report sees only that the agent hangs up.
    ("01-token-ca-hash-server.log", &[]),
    ("03-client-cert-expired-input.log", &["K-11"]),
    ("04-must-be-logged-in-input.log", &["K-11"]),
    ("04-must-be-logged-in-unauthorized.log", &["K-11"]),
    ("05-foreign-conversion-webhook-input.log", &["C-10"]),
    ("05-foreign-conversion-webhook-notfound.log", &["C-10"]),
    ("06-kubectl-http-port-input.log", &["K-12"]),
    ("08-no-match-for-platform-input.log", &["R-05"]),
    ("10-kairos-alpine-input.log", &["N-01"]),
    ("11-sd-card-timeouts-ext4.log", &["H-07"]),
    ("11-sd-card-timeouts-input.log", &["H-07"]),
    ("15-tls-handshake-timeout-input.log", &["K-10"]),
    ("19-official-image-tag-dot-ai-812.log", &["R-06"]),
    ("19-official-image-tag-input.log", &["R-06"]),
    ("19-official-image-tag-platform.log", &["R-05"]),
    ("29-registries-tab-input.log", &["F-01"]),
    ("60-false-alarms-pi4-boot-healthy.log", &[]),
    ("60-false-alarms-postgres-shm.log", &[]),
    ("60-false-alarms-pvc-fsgroup.log", &[]),
    ("60-false-alarms-slow-sql-first-start.log", &[]),
    ("60-false-alarms-tls-handshake-healthy.log", &[]),
    ("60-false-alarms-usb-stick-pulled.log", &[]),
];

fn reported(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reported").join(name)
}

/// Exit status and messages.
fn weaver(arguments: &[&str], kubeconfig: &Path) -> (i32, String) {
    let mut weaver = Command::new(env!("CARGO_BIN_EXE_weaver"));
    let done = weaver.args(arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
    (done.status.code().unwrap(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

#[test]
fn each_reported_log_is_explained_by_its_codes_and_no_other() {
    let mut files: Vec<_> = fs::read_dir(reported(""))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "log"))
        .collect();
    files.sort_unstable();
    assert_eq!(files, LOGS.iter().map(|(file, _)| *file).collect::<Vec<_>>());
    for (file, want) in LOGS {
        let log = File::open(reported(file)).unwrap();
        let mut weaver = Command::new(env!("CARGO_BIN_EXE_weaver"));
        let done = weaver.arg("explain").stdin(log).output().unwrap();
        assert!(done.status.success(), "{file}");
        let said = String::from_utf8(done.stdout).unwrap();
        let mut codes: Vec<&str> = said
            .lines()
            .filter(|line| {
                ["  FAIL ", "  WARN ", "  UNKNOWN "].iter().any(|severity| line.contains(severity))
            })
            .filter_map(|line| line.split(' ').next())
            .collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, *want, "{file}: {said}");
    }
}

/// The messages of `config check` for a copy of this report's boot partition.
fn checked(name: &str) -> String {
    let file = reported(name).join("weaver.toml");
    weaver(&["config", "check", file.to_str().unwrap()], Path::new("/dev/null")).1
}

/// RPi-Distro/pi-gen#892: Imager wrote user-data and network-config, and `weaver.toml` says otherwise.
#[test]
fn settings_of_imager_that_differ_are_named_with_both_lines() {
    let said = checked("30-pigen-userdata");
    for want in ["user-data:2:", "user-data:3:", "network-config:4:", "manage_etc_hosts"] {
        assert!(said.contains("B-03") && said.contains(want), "{want}: {said}");
    }
}

/// raspberrypi/rpi-imager#1743: a name in Chinese, each of its bytes taken for a character.
#[test]
fn a_network_name_that_imager_encoded_twice_is_named_as_it_was_meant() {
    let said = checked("32-imager-nonascii-ssid");
    assert!(said.contains("B-08") && said.contains("encoded twice") && said.contains("东京塔"), "{said}");
    assert!(said.contains("network-config:9:"), "{said}");
}

/// A kubeconfig as it was before its owner took the certificate and the key out.
fn whole(name: &str, directory: &Path) -> PathBuf {
    let with_credentials = |line: &str| match line.trim_start().split(':').next() {
        Some("client-certificate-data") => format!("    client-certificate-data: {CERTIFICATE}\n"),
        Some("client-key-data") => format!("    client-key-data: {KEY}\n"),
        _ => format!("{line}\n"),
    };
    let file = directory.join("exported.yaml");
    let shown = fs::read_to_string(reported(name)).unwrap();
    fs::write(&file, shown.lines().map(with_credentials).collect::<String>()).unwrap();
    file
}

/// particledecay/kconf#39: a merge lost `proxy-url`.
#[test]
fn a_merge_keeps_what_the_entries_of_others_have() {
    let laptop = tempfile::tempdir().unwrap();
    let config = laptop.path().join("config");
    fs::copy(reported("40-proxy-url-merge").join("home.yaml"), &config).unwrap();
    let exported = tempfile::tempdir().unwrap();
    let file = whole("40-proxy-url-merge/pi2.yaml", exported.path());
    let (code, said) = weaver(&["kubeconfig", "merge", file.to_str().unwrap()], &config);
    assert_eq!(code, 0, "{said}");
    let merged = fs::read_to_string(&config).unwrap();
    for kept in [
        "proxy-url: socks5://my-socks-server:1080",
        "provider: minikube.sigs.k8s.io",
        "command: aws",
        "current-context: minikube",
        "server: https://raspi.lan:6443",
    ] {
        assert!(merged.contains(kept), "{kept}: {merged}");
    }
    assert_eq!(fs::read_dir(laptop.path()).unwrap().count(), 2, "the backup is next to it");
}

/// k3s-io/k3s#14441: each k3s calls its cluster, user and context `default`.
#[test]
fn a_second_default_is_refused_and_the_file_stays_as_it_is() {
    let laptop = tempfile::tempdir().unwrap();
    let config = laptop.path().join("config");
    let first = reported("41-three-defaults").join("k1.yaml");
    fs::copy(&first, &config).unwrap();
    for name in ["k2.yaml", "k3.yaml"] {
        let exported = tempfile::tempdir().unwrap();
        let file = whole(&format!("41-three-defaults/{name}"), exported.path());
        let (code, said) = weaver(&["kubeconfig", "merge", file.to_str().unwrap()], &config);
        assert_eq!(code, 10, "{said}");
        assert!(said.contains("as every k3s does"), "{said}");
        assert_eq!(fs::read_to_string(&config).unwrap(), fs::read_to_string(&first).unwrap());
    }
}
