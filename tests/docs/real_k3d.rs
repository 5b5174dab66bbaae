//! The tutorial of k3d, typed from its first step to its last at the k3d that `make test K3D=DIR` names.
//!
//! Pi and laptop are this machine, in a mount namespace of the test: `raspi.lan` is in its `/etc/hosts`, what is
//! installed is in its `/usr/local/bin`, and `ssh` runs the command here. Cluster, registry and directory have names of
//! this run. The image of step 7 is the engine's own `nginx:alpine`, of which nothing is downloaded.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use weaver_devstack::server::ServerBinary;
use weaver_tests::k3d::RealK3d;
use weaver_tests::monitoring::file;
use weaver_tests::world::given;

use crate::page::{blocks, is_output};

const PAGE: &str = "docs/tutorials/k3d-on-a-pi.md";

/// What is not typed: builds, what a step offers instead of its other half, and what is for a case that does not occur.
pub const NOT_TYPED: [&str; 11] = [
    "make cross",
    "sudo weaver-node-agent repair --dry-run",
    "sudo weaver-node-agent repair",
    "sudo reboot",
    "make oci",
    "scp out/weaver-operator-0.1.0.oci.tar pi@raspi.lan:",
    "ssh pi@raspi.lan k3d image import weaver-operator-0.1.0.oci.tar --cluster demo",
    "kubectl apply -k deploy/kubernetes",
    "weaver crd install --service config-weaver/weaver-webhook",
    "kubectl -n config-weaver get pods",
    "kubectl describe pod -l app=pages | weaver explain",
];

/// As images name it.
const PROCESSOR: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// What the page says of an image without a registry.
const IMPORT: &str = "k3d image import pages.tar --cluster demo";

/// Makes Pi and laptop of this machine. BIN, SOCKET and the page's UNIT are put in.
const BEFORE: &str = r#"
mkdir -p pi bin target/image new work
mount -t tmpfs none /run; mount -t tmpfs none /var/lib
mount -t overlay -o lowerdir=/usr/local/bin,upperdir=new,workdir=work none /usr/local/bin
ln -s SOCKET /run/docker.sock
ln -s BIN target/image/programs
{ cat /etc/hosts; echo 127.0.0.1 raspi.lan; } > hosts; mount --bind hosts /etc/hosts
printf '%s\n' 'cd "$HOME/pi"' 'case "$1" in -f) exit 0;; --) shift;; esac' 'shift' 'exec sh -c "$*"' > bin/ssh
printf '%s\n' 'cd "$HOME"' 'for file; do case $file in *:) ;; *) cp -L "$file" pi/;; esac; done' > bin/scp
printf '%s\n' 'test "$1" != -n || shift' 'exec "$@"' > bin/sudo
cat > bin/systemctl <<'SYSTEMCTL'
test "$*" = 'enable --now weaver-k3d'
program=$(sed -n 's/^ExecStart=//p' "$HOME/unit")
setsid $program > "$HOME/agent.log" 2>&1 &
echo $! > "$HOME/agent.pid"
SYSTEMCTL
cat > unit <<'UNIT_FILE'
UNIT
UNIT_FILE
sed -i '1i #!/bin/sh -e' bin/*; chmod +x bin/*
"#;

/// Takes away what the page makes.
const AFTER: &str = r#"
gone() {
  code=$?
  set +e
  test $code = 0 -o ! -e agent.log || { echo "the agent:"; tail -n 30 agent.log; }
  test ! -e agent.pid || kill $(cat agent.pid)
  k3d cluster delete demo; k3d registry delete k3d-registry.localhost; rm -rf /srv/demo
  exit $code
}
trap gone EXIT
"#;

/// The commands in their order, each with what the page shows below it.
fn commands(page: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for block in blocks(page) {
        let line = |line: &&str| ((*line).to_owned(), Vec::new());
        match block.kind {
            "" => commands.extend(block.lines.iter().filter(|line| !line.is_empty()).map(line)),
            "sh run" => commands.push((block.lines.join("\n"), Vec::new())),
            "console" | "console run" => {
                for line in block.lines {
                    match line.strip_prefix("$ ") {
                        Some(command) => commands.push((command.to_owned(), Vec::new())),
                        None => commands.last_mut().unwrap().1.push(line.to_owned()),
                    }
                }
            }
            _ => {}
        }
    }
    commands
}

/// As a shell is to run it.
fn typed(command: &str) -> String {
    match command {
        // Other findings than those of the step do not matter.
        "sudo weaver-node-agent preflight" => format!("{command} || test $? -eq 10"),
        _ if command.starts_with("skopeo ") => {
            command.replace("docker://docker.io/library/nginx:alpine", "docker-daemon:nginx:alpine")
        }
        // The ingress controller may come up after its backends.
        _ if command.starts_with("curl ") => {
            let patient =
                command.replacen("curl", "curl --fail --retry 60 --retry-delay 1 --retry-all-errors", 1);
            format!("{patient} | grep 'Served from the Pi'")
        }
        _ if command.starts_with("kubectl rollout status") => format!("{command} --timeout=120s"),
        // The agent has just been started.
        _ if command.starts_with("sudo weaver-node-agent check") => {
            format!("for i in $(seq 60); do {command} && break || sleep 1; done; {command}")
        }
        // The engine has the image for this machine only.
        _ if command.starts_with("weaver registry check") => {
            format!("{command} --platform linux/{PROCESSOR}")
        }
        // For a `create` that hangs; here there is no operator yet.
        _ if command.starts_with("weaver doctor\n") => {
            command.replacen("weaver doctor", "weaver doctor || test $? -eq 10", 1)
        }
        _ if command.starts_with("weaver status\n") => {
            format!(
                "for i in $(seq 60); do weaver status | grep -v 'no leader' | grep -q ^leader && break; sleep 1; done\n{command}"
            )
        }
        _ => command.to_owned(),
    }
}

/// A test of its own with the image that is imported: it is in no registry. It is another one than that of step 7: from
/// 1.35 on the kubelet pulls again what it has pulled before by another name.
const IMPORTED: &str = "
echo 'FROM nginx:alpine
LABEL imported=yes' | docker build --tag demo.example/imported:1 -
docker save demo.example/imported:1 -o pages.tar
IMPORT
docker rmi demo.example/imported:1
kubectl run imported --image=demo.example/imported:1 --image-pull-policy=IfNotPresent
kubectl wait --for=condition=Ready pod/imported --timeout=120s
";

fn script(page: &str, k3d: &RealK3d) -> (String, Vec<Vec<String>>) {
    let unit = blocks(page).into_iter().find(|block| block.kind == "ini").unwrap().lines.join("\n");
    let before = BEFORE
        .replace("BIN", given("WEAVER_TEST_BIN_DIR").to_str().unwrap())
        .replace("SOCKET", k3d.socket().to_str().unwrap())
        .replace("UNIT\n", &format!("{unit}\n"));
    let kubectl = ServerBinary::from_environment().unwrap().path;
    let kubectl = format!("kubectl() {{ '{}' kubectl \"$@\"; }}\n", kubectl.display());
    let mut script = format!("exec 2>&1\nset -e\n{before}{AFTER}{kubectl}");
    let mut shown = Vec::new();
    for (command, output) in commands(page) {
        if NOT_TYPED.contains(&&*command) {
            continue;
        }
        write!(script, "\nprintf '\\036%s\\n' '$ {}'\n{}", command.replace('\'', "'\\''"), typed(&command))
            .unwrap();
        shown.push(output);
    }
    script += &IMPORTED.replace("IMPORT", IMPORT);
    (script, shown)
}

#[test]
#[ignore = "needs a real k3d, and root: make test K3D=DIR"]
fn k3d_on_a_pi() {
    let page = file(PAGE);
    for command in NOT_TYPED.into_iter().chain([IMPORT]) {
        assert!(page.contains(command), "{PAGE} does not have: {command}");
    }
    let k3d = RealK3d::given();
    let (script, shown) = script(&page, &k3d);
    let own = |text: &str| {
        let unique = format!("weaver{}", std::process::id());
        text.replace("demo", &unique).replace("registry.localhost", &format!("{unique}.localhost"))
    };
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("typed.sh"), own(&script)).unwrap();
    let path = format!("{}/bin:/usr/local/bin:{}", home.path().display(), k3d.path().to_str().unwrap());
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "typed.sh"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .env_remove("DOCKER_HOST")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{PAGE}: {said}");
    println!("{said}");
    for (shown, found) in shown.iter().zip(said.split('\u{1e}').skip(1)) {
        let shown: Vec<String> = shown.iter().map(|line| own(line)).collect();
        let is_compared = |line: &str| !line.starts_with("image ");
        let shown: Vec<String> = shown.into_iter().filter(|line| is_compared(line)).collect();
        let lines: Vec<&str> = found.lines().filter(|line| is_compared(line)).collect();
        let (command, found) = lines.split_first().unwrap();
        assert!(shown.is_empty() || is_output(&shown, found), "{command} shows {found:#?}, not {shown:#?}");
    }
}
