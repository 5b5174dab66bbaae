//! A card that never has a network runs a pod from the images that lie on it. The testbed has no kubelet: the image
//! needs a real k3s (`K3S=FILE make image-matrix`).

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use weaver_image::boot::card::Card;
use weaver_image::booted;

use super::network::boot_unplugged;
use crate::poll::until;
use crate::root::image;

const BOOT: Duration = Duration::from_mins(15);
/// The image of the pod. No registry has it, and none could be asked.
const IMAGE: &str = "docker.io/weaver-test/pod:1";
/// What the pod leaves on the boot partition: without a network nothing else tells of it.
const PROOF: &str = "POD.TXT";
/// Writes that and stays; as the sandbox of a pod it has nowhere to write.
const PROGRAM: &str = r#"
static long call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
void _start(void) {
    enum { OPENAT = 56, WRITE = 64, FSYNC = 82, PPOLL = 73, HERE = -100, CREATE_TO_WRITE = 0101 };
    long file = call(OPENAT, HERE, (long)"/card/POD.TXT", CREATE_TO_WRITE, 0644);
    if (file >= 0) { call(WRITE, file, (long)"runs\n", 5, 0); call(FSYNC, file, 0, 0, 0); }
    for (;;) call(PPOLL, 0, 0, 0, 0);
}
"#;

fn program() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let [source, program] = ["pod.c", "pod"].map(|name| dir.path().join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiled = Command::new("aarch64-linux-gnu-gcc")
        .args(["-O1", "-static", "-nostdlib", "-ffreestanding", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::read(&program).unwrap()
}

fn packed(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content, mode) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        archive.append_data(&mut header, name, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

/// As `docker save` writes it, under these names.
fn archive(names: &[&str]) -> Vec<u8> {
    let layer = packed(&[("pod", &program(), 0o755)]);
    let digest = format!("sha256:{:x}", Sha256::digest(&layer));
    let config = json!({
        "architecture": "arm64", "os": "linux", "config": {"Entrypoint": ["/pod"]},
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]);
    packed(&[
        ("config.json", config.to_string().as_bytes(), 0o644),
        ("manifest.json", manifest.to_string().as_bytes(), 0o644),
        ("layer.tar", &layer, 0o644),
    ])
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "from-the-card", "namespace": "default"},
        "spec": {
            "automountServiceAccountToken": false, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "pod", "image": IMAGE, "imagePullPolicy": "Never",
                            "volumeMounts": [{"name": "card", "mountPath": "/card"}]}],
            "volumes": [{"name": "card", "hostPath": {"path": "/boot/firmware"}}],
        },
    })
}

#[test]
#[ignore = "boots a machine of its own: make image-matrix"]
fn a_card_without_a_network_runs_a_pod_from_its_images() {
    let known = booted::machine().unwrap();
    if known.run("k3s --version").unwrap().contains("testbed") {
        eprintln!("not run: the testbed has no kubelet; K3S=FILE puts a real k3s onto the card");
        return;
    }
    let pause = "k3s agent --help | grep -o 'rancher/mirrored-pause:[0-9.]*' | head -n 1";
    let pause = format!("docker.io/{}", known.run(pause).unwrap().trim());
    drop(known);
    let mut edits = booted::edits();
    edits.files.extend([
        ("images/pod.tar".to_owned(), archive(&[IMAGE, &pause])),
        ("manifests/pod.json".to_owned(), pod().to_string().into_bytes()),
    ]);
    let card = Arc::new(Card::new(&image(), 8 << 30, &edits).unwrap());
    let mut machine = boot_unplugged(&card);
    until("what the pod writes", || {
        Ok(match machine.read_fat(PROOF)? {
            Some(written) if written == b"runs\n" => Ok(()),
            other => Err(format!("{other:?}")),
        })
    });

    machine.set_link(true).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    let images = machine.run("k3s ctr images ls -q").unwrap();
    assert!(images.contains("docker.io/weaver-test/pod"), "{images}");
    // The kubelet reports it some time after the pod has begun to write.
    let phase = "k3s kubectl get pod from-the-card -o jsonpath={.status.phase}";
    until("the pod is reported as running", || {
        let phase = machine.run(phase)?;
        Ok(if phase == "Running" { Ok(()) } else { Err(phase) })
    });
}
