//! `weaver-image build` on a machine that cannot do it.

use std::process::Command;

#[test]
fn a_full_disk_is_named_before_anything_is_made() {
    let home = tempfile::tempdir().unwrap();
    // A disk of its own, which is gone with the process.
    let script = "mount -t tmpfs -o size=64m none \"$1\" && \"$0\" build --k3s testbed --out \"$1\"; \
                  code=$?; ls -A \"$1\"; exit $code";
    let run = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_weaver-image")])
        .arg(home.path())
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    let path = home.path().to_str().unwrap();
    assert!(said.contains("is full: 64 MiB are free, 3072 MiB are needed") && said.contains(path), "{said}");
    assert!(said.contains("--out"), "and the way out: {said}");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "", "nothing was written there");
}
