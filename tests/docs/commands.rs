//! Commands of the book that are typed on the shared server, each page in a test. `held.rs` has the pages
//! that are not here.

use weaver_tests::world::given;

use crate::page::{page_works, page_works_on};

const A_SOURCE: &str = "for name in team-a foo bar; do kubectl create namespace $name; done
kubectl create configmap settings -n team-a --from-literal=greeting=hello
";

const A_TENANT: &str = "kubectl apply -f deploy/samples/configmapsync.yaml
kubectl wait -n team-a configmapsync/settings --for=condition=Ready --timeout=60s
";

const TWO_RELEASES: &str = r"cat > crds-1.0.yaml <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                colour: {type: string}
                size: {type: integer, maximum: 9}
END
sed '/colour/d; s/maximum: 9/maximum: 5/' crds-1.0.yaml > crds-1.1.yaml
";

#[test]
fn first_copy() {
    page_works("docs/tutorials/first-copy.md", &["shop", "shop-web", "shop-jobs"], "");
}

#[test]
fn copy_in_a_minute() {
    page_works("docs/tutorials/copy-in-a-minute.md", &["cafe", "cafe-web", "cafe-shop"], "");
}

#[test]
fn k3d_on_a_pi() {
    // No container engine is here: what k3s says in its container on a Pi as it comes.
    let before =
        "docker() { echo 'time=\"…\" level=fatal msg=\"failed to find memory cgroup (v2)\"' >&2; }\n";
    page_works("docs/tutorials/k3d-on-a-pi.md", &[], before);
}

/// A release that is signed, and the key.
const A_RELEASE: &str = "for name in apt SHA256SUMS SHA256SUMS.minisig provenance.intoto.json \
                         weaver-0.2.0-rc.1-linux-amd64.tar.gz; do cp -r FIXTURES/release/$name .; done
                         cp FIXTURES/owner.pub config-weaver.pub\n";

#[test]
fn install() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/fixtures");
    page_works("docs/how-to/install.md", &[], &A_RELEASE.replace("FIXTURES", fixtures));
}

#[test]
fn change_the_host() {
    let before = "mkdir ~/.ssh; echo 'ssh-ed25519 \
                  AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop' > ~/.ssh/id_ed25519.pub";
    page_works("docs/how-to/change-the-host.md", &[], before);
}

#[test]
fn join_a_server() {
    page_works("docs/how-to/join-a-server.md", &[], "");
}

/// A laptop, and a Pi behind an `ssh` that runs the command here.
fn a_laptop_and_a_pi() -> String {
    let (programs, admin) = (given("WEAVER_TEST_BIN_DIR"), given("WEAVER_TEST_KUBECONFIG"));
    let (weaver, admin) = (programs.join("weaver"), admin.display());
    format!(
        r#"mkdir -p bin ~/.ssh; export KUBECONFIG="$PWD/config" PATH="$PWD/bin:$PATH"
        printf '%s\n' 'while test "$1" = --; do shift; done; shift; exec sh -c "$*"' > bin/ssh
        printf '%s\n' 'test "$1" != -n || shift; exec "$@"' > bin/sudo
        cat > bin/weaver <<'END'
        case "$1 $2" in "kubeconfig export") set -- "$@" --kubeconfig '{admin}'; esac
        exec '{}' "$@"
END
        sed -i '1i #!/bin/sh' bin/*; chmod +x bin/*
        echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop' > ~/.ssh/id_ed25519.pub
        "#,
        weaver.display()
    )
}

/// An image, its hash, and a card for `dd` instead of the disk.
fn an_image_and_a_card(version: &str, folder: &str) -> String {
    format!(
        "mkdir -p {folder}; printf 'an image' | xz > {folder}/config-weaver-{version}-arm64.img.xz
        (cd {folder}; for image in *.xz; do sha256sum $image > $image.sha256; done)
        sudo() {{ case \"$1 $2\" in 'dd of=/dev/sdX') shift 2; dd of=card \"$@\"; test \"$(cat card)\" = 'an image';;
          'tee -a') tee -a hosts;; *) \"$@\";; esac; }}\n"
    )
}

/// Where a desktop mounts it: a directory.
const THE_BOOT_PARTITION: &str = "mkdir WEAVERBOOT
    cp() { case $2 in /media/*/WEAVERBOOT/) command cp \"$1\" WEAVERBOOT/;; *) command cp \"$@\";; esac; }
    sync() { command sync WEAVERBOOT/weaver.toml; }\n";

#[test]
fn first_card() {
    let before =
        a_laptop_and_a_pi() + &an_image_and_a_card(env!("CARGO_PKG_VERSION"), "out") + THE_BOOT_PARTITION;
    page_works_on(
        &given("WEAVER_TEST_KUBECONFIG"),
        "docs/tutorials/first-card.md",
        &[("raspi.lan", "localhost")],
        &before,
    );
}

#[test]
fn flash_a_card() {
    page_works("docs/how-to/flash-a-card.md", &[], &an_image_and_a_card("VERSION", "."));
}

#[test]
fn get_a_kubeconfig() {
    page_works_on(
        &given("WEAVER_TEST_KUBECONFIG"),
        "docs/how-to/get-a-kubeconfig.md",
        &[("raspi.lan", "localhost")],
        &a_laptop_and_a_pi(),
    );
}

#[test]
fn install_on_a_laptop() {
    page_works("docs/how-to/install-on-a-laptop.md", &[], "");
}

#[test]
fn rename_a_node() {
    let before = "printf '{apiVersion: v1, kind: Node, metadata: {name: OLD}}' | kubectl create -f -\n";
    let old = format!("docs-old-{}", std::process::id());
    page_works_on(&given("WEAVER_TEST_KUBECONFIG"), "docs/how-to/rename-a-node.md", &[("OLD", &old)], before);
}

#[test]
fn rotate_credentials() {
    let before = "sed s/team-t/team-r/ deploy/samples/servicetoken.yaml | kubectl apply -f -
        kubectl wait --for=create secret/robot-tokens -n team-r --timeout=60s\n";
    page_works("docs/how-to/rotate-credentials.md", &["team-r"], before);
}

#[test]
fn troubleshoot() {
    page_works("docs/how-to/troubleshoot.md", &[], "");
}

#[test]
fn upgrade() {
    page_works("docs/how-to/upgrade.md", &[], "");
}

#[test]
fn add_a_tenant() {
    page_works("docs/how-to/add-a-tenant.md", &["team-a", "foo", "bar"], A_SOURCE);
}

#[test]
fn choose_targets() {
    let before = "kubectl create namespace office
                  kubectl -n office create configmap settings --from-literal=greeting=hello\n";
    page_works("docs/how-to/choose-targets.md", &["office", "branch-1", "branch-2", "branch-"], before);
}

#[test]
fn choose_sources() {
    let before = "kubectl create namespace library
                  kubectl -n library create configmap colours --from-literal=sky=blue
                  kubectl -n library create configmap sizes --from-literal=shoe=42\n";
    page_works("docs/how-to/choose-sources.md", &["library", "shop", "team-s", "app-s"], before);
}

#[test]
fn merge_sources() {
    let pem = |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let map = |name: &str, text: &str| {
        format!(
            "printf '%s' '{}' > {name}.crt
                 kubectl -n certs create configmap {name} --from-file=ca.crt={name}.crt\n",
            pem(text)
        )
    };
    let before = format!("kubectl create namespace certs\n{}{}", map("roots", "one"), map("extra", "two"));
    page_works("docs/how-to/merge-sources.md", &["certs", "web"], &before);
}

#[test]
fn fetch_a_copy() {
    page_works("docs/how-to/fetch-a-copy.md", &["common", "shop-f"], "");
}

#[test]
fn copy_any_kind() {
    page_works("docs/how-to/copy-any-kind.md", &["team-p", "app-p"], "");
}

/// Namespaces, two accounts with their rights, and what the examples copy.
const WHAT_THE_EXAMPLES_NAME: &str = r#"
for name in depot kiosk stall-1 stall-2 stall-3; do kubectl create namespace $name; done
kubectl label namespace kiosk example.com/served-by=depot
for name in courier robot; do
  kubectl -n depot create serviceaccount $name
  weaver tenant allow depot $name
done
kubectl -n depot label serviceaccount robot weaver.example.com/allow-tokens=true
for name in depot kiosk stall-1 stall-2 stall-3; do
  kubectl -n $name create role courier --verb=get,list,watch,create,update,patch,delete \
    --resource=configmaps,secrets,serviceaccounts,networkpolicies.networking.k8s.io
  kubectl -n $name create rolebinding courier --role=courier \
    --serviceaccount=depot:courier --serviceaccount=depot:robot
done
kubectl -n depot create role mint --verb=create --resource=serviceaccounts/token
kubectl -n depot create rolebinding mint --role=mint --serviceaccount=depot:courier
kubectl -n depot create configmap settings \
  --from-literal=greeting=hello --from-literal=log-level=info --from-literal=draft=no
kubectl -n depot create configmap roots --from-literal=ca.crt=one --from-literal=note=first
kubectl -n depot create configmap extra --from-literal=ca.crt=two --from-literal=note=second
kubectl -n depot create secret generic password --from-literal=password=open-sesame
kubectl -n depot label secret password share=true example.com/stage=live
kubectl create -f - <<'END'
{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed", "namespace": "depot"},
 "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
END
"#;

#[test]
fn api_examples() {
    page_works(
        "docs/reference/api-examples.md",
        &["depot", "kiosk", "stall-1", "stall-2", "stall-3", "stall-"],
        WHAT_THE_EXAMPLES_NAME,
    );
}

#[test]
fn keep_tokens_in_a_secret() {
    page_works("docs/how-to/keep-tokens-in-a-secret.md", &["team-t"], "");
}

#[test]
fn generate_accounts() {
    page_works("docs/how-to/generate-accounts.md", &["team-g"], "");
}

#[test]
fn manage_resources() {
    let before = A_TENANT.to_owned() + "kubectl delete -n team-a configmapsync settings\n";
    page_works("docs/how-to/manage-resources.md", &["team-a", "foo", "bar"], &before);
}

#[test]
fn pause() {
    page_works("docs/how-to/pause.md", &["team-a", "foo", "bar"], A_TENANT);
}

#[test]
fn uninstall() {
    page_works("docs/how-to/uninstall.md", &[], "");
}

#[test]
fn monitor() {
    page_works("docs/how-to/monitor.md", &["monitoring"], "kubectl create namespace monitoring\n");
}

#[test]
fn move_from_upstream() {
    page_works("docs/how-to/move-from-upstream.md", &["team-a", "foo", "bar"], A_TENANT);
}

#[test]
fn check_definitions() {
    page_works("docs/how-to/check-definitions.md", &[], TWO_RELEASES);
}

/// An object of this kind and name in each of these namespaces, as another tool leaves its copies: with this key.
fn copies_of_another_tool(namespaces: &str, object: &str, mark: &str) -> String {
    format!(
        "for name in {namespaces}; do
           kubectl create namespace $name
           kubectl create -n $name {object} --from-literal=greeting=hello
           kubectl {mark}=source -n $name
         done\n"
    )
}

/// That tool's Deployment, until the page is done.
fn deployment(name: &str) -> String {
    let kubectl = "kubectl -n kube-system";
    format!(
        "{kubectl} create deployment {name} --image=none.example.com/tool
        trap '{kubectl} delete deployment {name} > /dev/null' EXIT\n"
    )
}

#[test]
fn move_from_hnc() {
    let before = copies_of_another_tool(
        "team-a team-a-dev team-a-prod",
        "configmap settings",
        "label configmap settings hnc.x-k8s.io/inherited-from",
    );
    page_works("docs/how-to/move-from-hnc.md", &["team-a", "team-a-dev", "team-a-prod"], &before);
}

#[test]
fn move_from_reflector() {
    let before = copies_of_another_tool(
        "certs web-1 web-2",
        "secret generic wildcard-tls",
        "annotate secret wildcard-tls reflector.v1.k8s.emberstack.com/reflects",
    ) + &deployment("reflector");
    page_works("docs/how-to/move-from-reflector.md", &["certs", "web-1", "web-2"], &before);
}

#[test]
fn move_from_replicator() {
    let before = copies_of_another_tool(
        "build app-1 app-2",
        "secret generic registry",
        "annotate secret registry replicator.v1.mittwald.de/replicate-from",
    ) + &deployment("replicator-kubernetes-replicator");
    page_works("docs/how-to/move-from-replicator.md", &["build", "app-1", "app-2"], &before);
}
