//! Two cards of one image, each with its k3s: nothing that makes one known or trusted is on the other.

use std::collections::BTreeMap;

use weaver_image::boot::machine::Machine;

/// Each key, certificate and token of this card, by its hash.
fn own(machine: &Machine) -> BTreeMap<String, String> {
    // Those kubeconfigs of k3s that only name files are the same on each card.
    let list = "cd / && sha256sum etc/machine-id etc/ssh/ssh_host_*_key etc/ssh/ssh_host_*_key.pub \
        $(find var/lib/rancher/k3s/server var/lib/weaver run/weaver -type f \
          \\( -name '*.crt' -o -name '*.key' -o -name '*token*' \\) -print \
          -o -type f -name '*.kubeconfig' -exec grep -l -e -data {} ';')";
    let reported = machine.run(list).unwrap();
    let pairs = reported.lines().filter_map(|line| line.split_once("  "));
    pairs.map(|(hash, file)| (hash.to_owned(), file.to_owned())).collect()
}

/// Compares two that have come up.
pub fn are_strangers(one: &Machine, other: &Machine) {
    let (one, other) = (own(one), own(other));
    for kind in [
        "etc/machine-id",
        "ssh_host_ed25519_key",
        "server-ca.crt",
        "server-ca.key",
        "tls/service.key",
        "operator.token",
        "operator.kubeconfig",
    ] {
        // k3s has service.current.key too.
        let is_it = |file: &String| file.replace(".current.", ".").ends_with(kind);
        assert!(one.values().any(is_it), "{kind} was not looked at: {one:#?}");
    }
    let shared: Vec<_> =
        one.iter().filter(|(hash, _)| other.contains_key(*hash)).map(|(_, file)| file).collect();
    assert!(shared.is_empty(), "on both cards: {shared:?}");
    println!("{} and {} files, none on both cards", one.len(), other.len());
}
