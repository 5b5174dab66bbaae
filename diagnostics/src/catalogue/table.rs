//! The table. A code without an entry does not compile.

#![allow(clippy::enum_glob_use, reason = "all of them are here")]

use super::Entry;
use crate::finding::Code::{self, *};
use crate::finding::Severity::{self, *};

const K3S_CONFIGURATION: &str = "https://docs.k3s.io/installation/configuration";
const K3S_CERTIFICATES: &str = "https://docs.k3s.io/cli/certificate";
const K3S_REQUIREMENTS: &str = "https://docs.k3s.io/installation/requirements";
const K3S_REGISTRIES: &str = "https://docs.k3s.io/installation/private-registry";
const K3S_ACCESS: &str = "https://docs.k3s.io/cluster-access";
const K3S_AIRGAP: &str = "https://docs.k3s.io/installation/airgap";
const RBAC: &str = "https://kubernetes.io/docs/reference/access-authn-authz/rbac/";

const CHECK: &str = "sudo weaver-node-agent check";
const DRY_RUN: &str = "sudo weaver-node-agent repair --dry-run";
const REPAIR: &str = "sudo weaver-node-agent repair";
const RESTART_K3S: &str = "sudo systemctl restart k3s";
const K3S_LOG: &str = "journalctl -u k3s -n 50";

const fn known(
    severity: Severity,
    cause: &'static str,
    remedy: &'static str,
    commands: &'static [&'static str],
    links: &'static [&'static str],
) -> Entry {
    Entry { severity, cause, remedy, commands, links }
}

/// What is known of a code.
#[must_use]
#[expect(clippy::too_many_lines, reason = "a table")]
pub const fn entry(code: Code) -> Entry {
    match code {
        MemoryCgroupOk => {
            known(Ok, "The kernel lists it, and nothing in the boot files turns it off.", "", &[], &[])
        }
        MemoryCgroupAbsent => known(
            Fail,
            "Raspberry Pi's kernels have the controller off unless `cgroup_enable=memory` stands on the first line of \
             the boot file; k3s ends itself without it, and starts again for ever.",
            "add the parameter on that same line and reboot; the agent knows which file counts, shows the exact change and \
             makes it",
            &[DRY_RUN, REPAIR, "sudo reboot"],
            &["https://github.com/k3s-io/k3s/issues/2067", K3S_REQUIREMENTS],
        ),
        CgroupTokenOnIgnoredLine => known(
            Fail,
            "The firmware hands only the first line to the kernel, and `echo >>` writes a second one.",
            "join the lines and reboot",
            &[DRY_RUN, REPAIR, "sudo reboot"],
            &["https://github.com/k3d-io/k3d/issues/385"],
        ),
        MemoryCgroupDisabled => known(
            Fail,
            "`cgroup_disable=memory` stands in the boot file behind what would turn the controller on, or on a kernel \
             that obeys it wherever it stands.",
            "remove it and reboot; what a device tree adds stands before the file's parameters and is overruled by them",
            &[DRY_RUN, REPAIR, "sudo reboot"],
            &["https://github.com/raspberrypi/linux/issues/6980"],
        ),
        RebootNeeded => known(
            Fail,
            "The boot file is right, and the running kernel was started before it was.",
            "reboot",
            &["sudo reboot"],
            &[],
        ),
        CgroupTokenInStub => known(
            Fail,
            "`/boot/cmdline.txt` is a stub since Raspberry Pi OS bookworm; k3s' own message still names it.",
            "change the file that the firmware reads, which the agent names",
            &[DRY_RUN, REPAIR, "sudo reboot"],
            &[],
        ),
        CgroupV1Refused => known(
            Fail,
            "From Kubernetes 1.35 on the kubelet ends itself on a host with cgroup v1.",
            "boot with cgroup v2 (remove `systemd.unified_cgroup_hierarchy=0` from the kernel's parameters), or let the \
             kubelet run on v1 for as long as it still can",
            &[
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'kubelet-arg+: [\"fail-cgroupv1=false\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/92-cgroupv1.yaml",
                RESTART_K3S,
            ],
            &["https://github.com/kubernetes/enhancements/issues/5573"],
        ),
        NameNotFound => known(
            Fail,
            "Who connects asks DNS and /etc/hosts; kubectl asks nobody else, so a name in .local is not found by it.",
            "write the address of the Pi into /etc/hosts of the machine that connects (in a container: \
             `--add-host NAME:ADDRESS`), or use the address, where the certificate has it",
            &[],
            &["https://github.com/kubernetes/kubectl/issues/48"],
        ),
        K3dNodeRestarting => known(
            Fail,
            "The container's k3s ends itself, mostly because the host's kernel has no memory controller.",
            "read the container's own log; give k3d a limit with `--timeout`",
            &["docker logs --tail 50 k3d-CLUSTER-server-0 2>&1 | weaver explain"],
            &["https://github.com/k3d-io/k3d/issues/853"],
        ),
        MemoryCgroupLostAtBoot => known(
            Warn,
            "The running kernel has the controller, and the boot file does not ask for it any more.",
            "add the parameter before the next boot",
            &[DRY_RUN, REPAIR],
            &[],
        ),
        BootFileUnreadable => known(
            Warn,
            "It is empty, no text, or damaged.",
            "restore it from a backup or write it anew: one line",
            &["cat /proc/cmdline"],
            &[],
        ),
        MemoryCgroupUnknown => known(
            Unknown,
            "/sys/fs/cgroup could not be read, or is none of the layouts known.",
            "nothing is stopped by this; see what k3s says",
            &[K3S_LOG],
            &[],
        ),
        MemoryTooSmall => known(
            Fail,
            "k3s with its own images needs more than 900 MB.",
            "use a board with 1 GB or more; 2 GB is what k3s' documentation asks for",
            &["free -m"],
            &[K3S_REQUIREMENTS],
        ),
        CardTooSmall => known(
            Warn,
            "The root file system has not the room for k3s, its images and its database.",
            "use a larger card; where the card is large, let the partition grow",
            &["sudo systemctl start weaver-grow-root.service", "df -h /"],
            &[],
        ),
        CgroupControllerMissing => known(
            Fail,
            "A parameter such as `cgroup_disable=cpu` turns it off, or the kernel was built without it.",
            "remove the parameter from the kernel's command line and reboot, or use a kernel that has it",
            &["cat /proc/cmdline", "sudo reboot"],
            &[K3S_REQUIREMENTS],
        ),
        CgroupRootThreaded => known(
            Warn,
            "k3s runs in a container whose cgroup was made threaded; the kernel then refuses `+memory` below it.",
            "give the container a cgroup namespace of its own, or run k3s on the host",
            &["docker run --privileged --cgroupns=private rancher/k3s:VERSION"],
            &["https://docs.kernel.org/admin-guide/cgroup-v2.html#threads"],
        ),
        ServingNamesOk => known(Ok, "A handshake was made with each of them.", "", &[], &[]),
        NameNotInCertificate => known(
            Fail,
            "The certificate is the right one, and has not the name by which you connect.",
            "have k3s serve the name (`tls-san+:` in a drop-in, restart); or connect by a name that it has; or verify one \
             of those with `kubectl --tls-server-name`; skipping verification is for diagnosis only",
            &[CHECK, "weaver kubeconfig export NAME"],
            &["https://github.com/k3s-io/k3s/issues/1381", K3S_CONFIGURATION],
        ),
        NameNotServed => known(
            Fail,
            "k3s was not restarted since the name was configured, a later file or a flag replaces the list, or its stored \
             certificate was frozen.",
            "restart k3s; where the name is still missing, stop it, renew its certificate and start it again. The CA stays, \
             and so does every kubeconfig. The agent does as much of it as is needed",
            &[
                "sudo weaver-node-agent repair names --dry-run",
                "sudo weaver-node-agent repair names",
                "# by hand:",
                RESTART_K3S,
                CHECK,
                "sudo systemctl stop k3s",
                "sudo k3s certificate rotate --service k3s-server",
                "sudo systemctl start k3s",
            ],
            &[K3S_CERTIFICATES],
        ),
        NameStale => known(
            Warn,
            "k3s never forgets a name that it has served: it is kept in a Secret and in a file, and right after a start k3s also \
             takes in whatever name a client asks for. Who owns that name can be taken for this node.",
            "have it taken out; deleting the Secret does not help, since k3s writes it back at once",
            &[
                "sudo weaver-node-agent repair names --dry-run --remove NAME",
                "sudo weaver-node-agent repair names --remove NAME",
            ],
            &["https://github.com/k3s-io/k3s/issues/7312"],
        ),
        CertificateDates => known(
            Fail,
            "The clock of one side is wrong, or k3s was not restarted in the last months before its certificate expired.",
            "compare the clocks first; if they are right, restart k3s: it renews its certificates at start",
            &["timedatectl", RESTART_K3S],
            &[K3S_CERTIFICATES],
        ),
        CertificateUntrusted => known(
            Fail,
            "The kubeconfig is of another cluster, or of this one before it was made anew; or somebody else answers.",
            "export the kubeconfig again, on the Pi, or have it fetched from there",
            &["sudo weaver kubeconfig export NAME", "weaver kubeconfig fetch USER@NAME"],
            &[K3S_ACCESS],
        ),
        NamesShadowed => known(
            Warn,
            "`tls-san` without `+` in a later drop-in replaces the names before it, and a flag of the unit replaces all.",
            "write `tls-san+` in each drop-in; remove the flag",
            &[CHECK, RESTART_K3S],
            &[K3S_CONFIGURATION],
        ),
        SanFlagRefused => known(
            Fail,
            "There is a space where `=` should be, or the flag was given to an agent: only servers have a certificate for \
             names.",
            "write `--tls-san=NAME`, and give it to servers only; with k3d: `--k3s-arg '--tls-san=NAME@server:*'`",
            &[],
            &["https://github.com/k3d-io/k3d/issues/295", K3S_CONFIGURATION],
        ),
        NameInvalid => known(
            Fail,
            "It has a character, a port or a dot that no name in a certificate can have; k3s drops it with a line in its log.",
            "write the name that was meant",
            &[CHECK, RESTART_K3S],
            &[],
        ),
        ServingNamesUnknown => known(
            Unknown,
            "The API server showed no certificate.",
            "wait until k3s has started; if it does not, look at its log",
            &["systemctl status k3s", K3S_LOG],
            &[],
        ),
        K3sConfigInvalid => known(
            Fail,
            "A file of /etc/rancher/k3s is no valid YAML.",
            "mend it at the line that is named",
            &[CHECK],
            &[K3S_CONFIGURATION],
        ),
        K3sConfigWrongType => known(
            Fail,
            "A setting has a list where a text is wanted, or the other way round.",
            "write it as its documentation has it",
            &[CHECK],
            &[K3S_CONFIGURATION],
        ),
        K3sFileUnreadable => known(
            Fail,
            "Its permissions or the file system keep the agent from reading it.",
            "run the check as root; look for errors of the card",
            &[CHECK, "sudo dmesg --level err"],
            &[],
        ),
        K3sNotAnswering => known(
            Fail,
            "k3s hangs while it starts, or has given up.",
            "its log says why",
            &["weaver explain --journal k3s", "systemctl status k3s"],
            &[],
        ),
        KubeconfigUnspecified => known(
            Fail,
            "0.0.0.0 and loopback addresses mean the machine that connects. k3d writes 0.0.0.0 into its kubeconfigs.",
            "export a kubeconfig with a name that is served",
            &["weaver kubeconfig export NAME"],
            &[K3S_ACCESS],
        ),
        KubeconfigFallback => known(
            Fail,
            "kubectl found no kubeconfig and took its default.",
            "say where the kubeconfig is",
            &["export KUBECONFIG=FILE", "kubectl config get-contexts"],
            &[K3S_ACCESS],
        ),
        KubeconfigInsecureWithCa => known(
            Fail,
            "A kubeconfig has both `insecure-skip-tls-verify` and a CA.",
            "remove the first; the CA is what makes the connection safe",
            &["kubectl config unset clusters.NAME.insecure-skip-tls-verify"],
            &[],
        ),
        KubeconfigUnreadable => known(
            Fail,
            "/etc/rancher/k3s/k3s.yaml is the administrator's and readable by root only, as it should be.",
            "export one for yourself (`--merge` puts it into one that you have); mode 644 would give the cluster to every user of \
             the machine",
            &["sudo weaver kubeconfig export NAME --output NAME.yaml", "sudo chown \"$USER\" NAME.yaml"],
            &[K3S_ACCESS],
        ),
        ConnectionRefused => known(
            Fail,
            "k3s does not run, or listens on another port: one of k3d is a new one for each cluster unless `--api-port` \
             says otherwise.",
            "on the Pi, see which port k3s listens on, if it runs, and start it if it does not",
            &["sudo ss -ltnp", "sudo systemctl start k3s"],
            &[],
        ),
        KubeconfigUnusable => known(
            Warn,
            "A part is missing in it, or it is no valid YAML.",
            "k3s writes it anew when it starts",
            &[RESTART_K3S],
            &[],
        ),
        KubeconfigExposed => known(
            Warn,
            "`write-kubeconfig-mode` is set, or somebody changed the mode.",
            "take the mode back, and remove the setting",
            &["sudo chmod 0600 /etc/rancher/k3s/k3s.yaml"],
            &[],
        ),
        KubeconfigInsecure => known(
            Warn,
            "It has `insecure-skip-tls-verify`, mostly because the certificate lacked a name: whoever answers at that address \
             gets the credentials.",
            "have the name served and export the kubeconfig again; it verifies by the cluster's CA then",
            &["sudo weaver kubeconfig export NAME"],
            &[K3S_ACCESS],
        ),
        OperatorNotStarted => known(
            Fail,
            "A step between the proven names and the running operator failed.",
            "the finding says which; the agent tries again by itself",
            &["systemctl status weaver-operator", "journalctl -u weaver-node-agent -n 50"],
            &[],
        ),
        Reached => known(Ok, "A request was answered.", "", &[], &[]),
        ServerSilent => known(
            Fail,
            "The Pi is off, has another address now, or a firewall on the way drops what is sent.",
            "see whether the Pi is there, and which address it has",
            &["ping -c 3 NAME", "nc -vz NAME 6443", "sudo ss -ltnp 'sport = :6443'"],
            &[K3S_REQUIREMENTS],
        ),
        CredentialsRefused => known(
            Fail,
            "The kubeconfig is older than the cluster, its certificate has expired, or its token was withdrawn.",
            "export it again, on the Pi",
            &["weaver kubeconfig fetch USER@NAME"],
            &[K3S_ACCESS],
        ),
        PortTaken => known(
            Fail,
            "Another Kubernetes, a web server, or a k3s that was started by hand has the port.",
            "see who it is, and end it, or give k3s another `https-listen-port`",
            &[],
            &[K3S_REQUIREMENTS],
        ),
        VersionNotSupported => known(
            Warn,
            "What is new in Kubernetes may change what the operator relies on; what is old may lack it.",
            "use a k3s of that range: the card names its own in image/k3s.lock",
            &["k3s --version"],
            &["https://docs.k3s.io/release-notes/v1.36.X"],
        ),
        SwapOnCard => known(
            Warn,
            "A small swap file on the card is what many systems begin with. It wears the card, and k3s' database waits behind it.",
            "turn it off; swap in compressed memory (zram) does no harm",
            &["sudo swapoff -a", "sudo systemctl disable --now dphys-swapfile", "grep swap /etc/fstab"],
            &[],
        ),
        CardSlow => known(
            Warn,
            "k3s' database waits until each small write is on the card, and many cards take long over that.",
            "use an SSD, or a card of class A2; take other writers off the card",
            &["sudo weaver-node-agent check --disk"],
            &[
                "https://docs.k3s.io/reference/resource-profiling",
                "https://github.com/k3s-io/k3s/issues/1850",
            ],
        ),
        ModuleMissing => known(
            Warn,
            "The distribution keeps it in a package of its own, or the running kernel was upgraded and its modules are gone. \
             Pods then have no network.",
            "reboot after an upgrade; on Ubuntu 21.10 to 23.10 install the package with the rest of the modules",
            &["sudo reboot", "sudo apt-get install linux-modules-extra-raspi"],
            &["https://github.com/k3s-io/k3s/issues/5355"],
        ),
        IdentityDrift => known(
            Warn,
            "The host name has changed, or `node-name` has. What runs on the old node stays with it, and k3s waits for a node \
             that does not come back.",
            "keep the old name; or let it go, and delete the old node when the new one is there",
            &[
                "echo 'node-name: OLD' | sudo tee /etc/rancher/k3s/config.yaml.d/93-node-name.yaml",
                "# or:",
                "sudo k3s kubectl delete node OLD",
            ],
            &["https://github.com/k3s-io/k3s/issues/5787"],
        ),
        ClocksDiffer => known(
            Warn,
            "A Pi has no battery for its clock, and a laptop that slept may be behind. Certificates and tokens are judged by it.",
            "see on both machines whether the clock is synchronised",
            &["timedatectl", "timedatectl timesync-status"],
            &[],
        ),
        KindsOk => known(Ok, "Each definition is there, and an object was converted.", "", &[], &[]),
        DefinitionDiffers => known(
            Fail,
            "They were never installed, are of another version, or somebody has changed them; the agent puts them back.",
            "see the difference, and whether the agent runs",
            &["weaver crd diff", "systemctl status weaver-node-agent"],
            &[],
        ),
        SyncNotReady => known(
            Warn,
            "A right is missing, the source is not there, or somebody else's object is in the way: its conditions say which.",
            "see what it says, and follow that",
            &["weaver sync explain NAME -n NAMESPACE"],
            &[],
        ),
        NobodyActs => known(
            Fail,
            "The operator does not run, or cannot reach the API server: what was changed has not been looked at.",
            "start it again; where the agent has not started it yet, its report says why",
            &["sudo systemctl restart weaver-operator", "cat /boot/firmware/NODE-STATUS.txt"],
            &[],
        ),
        MintingTooWide => known(
            Warn,
            "Somebody has bound the right on serviceaccounts/token for the whole cluster: whoever may write a ConfigMapSync \
             may then act as any account of that namespace.",
            "bind it for single accounts, as `weaver tenant allow` does, and remove the wide binding",
            &[
                "kubectl get clusterrolebindings -o wide | grep weaver-operator",
                "kubectl delete clusterrolebinding NAME",
                "weaver tenant allow NAMESPACE ACCOUNT",
            ],
            &[RBAC],
        ),
        MayNotLook => known(
            Unknown,
            "The account of the kubeconfig has not the right to look there.",
            "look with an administrator's kubeconfig",
            &[],
            &[RBAC],
        ),
        WeaverTomlInForce => known(Ok, "Each of its settings was made.", "", &[], &[]),
        WeaverTomlInvalid => known(
            Warn,
            "A line of it is no setting, or has no value that it can have.",
            "mend the lines that are named and reboot; until then the last good settings stay",
            &["sudo nano /boot/firmware/weaver.toml", "sudo reboot"],
            &[],
        ),
        WeaverTomlUnreadable => known(
            Warn,
            "The boot partition is not mounted, or damaged.",
            "check it",
            &["findmnt /boot/firmware", "sudo fsck.vfat -n /dev/disk/by-label/WEAVERBOOT"],
            &[],
        ),
        UserDataClash => known(
            Warn,
            "Raspberry Pi Imager's settings and weaver.toml name different values; weaver.toml wins.",
            "remove one of the two",
            &[],
            &[],
        ),
        TokenLeftOnCard => known(
            Warn,
            "The token was imported, and the file could not be written again.",
            "overwrite it in weaver.toml",
            &["sudo nano /boot/firmware/weaver.toml"],
            &[],
        ),
        HostNotConfigured => known(
            Warn,
            "A file could not be written, or a service refused the setting.",
            "the finding names it",
            &["journalctl -u weaver-boot-config"],
            &[],
        ),
        BootConfigUnknown => known(
            Unknown,
            "The report of the boot is missing or damaged.",
            "read its log",
            &["journalctl -u weaver-boot-config"],
            &[],
        ),
        RegistryPlainHttp => known(
            Fail,
            "containerd and skopeo ask a registry by HTTPS unless told otherwise. The last error shown may be that of the \
             default HTTPS endpoint, and not of the one configured.",
            "name the registry with `http://` in /etc/rancher/k3s/registries.yaml and restart k3s; for skopeo: \
             `--dest-tls-verify=false`",
            &[
                "weaver registry config REGISTRY:PORT --http | sudo tee /etc/rancher/k3s/registries.yaml",
                RESTART_K3S,
            ],
            &[K3S_REGISTRIES],
        ),
        ImageWithoutRegistry => known(
            Fail,
            "Without a dot or a colon in its first part, an image is one of docker.io.",
            "write the registry in front: REGISTRY:PORT/IMAGE",
            &[],
            &[K3S_REGISTRIES],
        ),
        RegistryNotAService => known(
            Warn,
            "A registry of k3d is a container on the Docker network beside the cluster.",
            "inside the cluster it is REGISTRY:5000, on your machine localhost with the port that Docker gave it",
            &["k3d registry list", "docker ps --filter label=k3d.role=registry"],
            &[],
        ),
        IngressAnnotationIgnored => known(
            Warn,
            "k3s brings Traefik, and the annotation is one of another controller or of Traefik's first version. Nothing says so.",
            "write what Traefik has for it: mostly a Middleware, named in `traefik.ingress.kubernetes.io/router.middlewares`",
            &["kubectl get ingress -A -o yaml | weaver ingress lint"],
            &["https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress/"],
        ),
        ScopeImmutable => known(
            Fail,
            "A definition is Namespaced or Cluster for ever; the new one is the other.",
            "compare first; deleting the definition deletes each of its objects, and a running operator deletes their copies with \
             them: copy what you need before",
            &["weaver crd diff"],
            &[],
        ),
        TokenRequestNotAKind => known(
            Fail,
            "It is a subresource of ServiceAccounts, and is not applied.",
            "ask for a token",
            &["kubectl create token ACCOUNT -n NAMESPACE"],
            &[],
        ),
        ConversionWebhookFailed => known(
            Fail,
            "It does not run, or its certificate is not of the CA in the definition. Objects stored at another version can \
             be neither read nor written meanwhile.",
            "start it; then install the definitions again, which also mends the CA",
            &["sudo systemctl restart weaver-webhook", "sudo systemctl restart weaver-node-agent"],
            &[],
        ),
        FinalizerWaits => known(
            Warn,
            "The operator is not running, or its account's rights are gone, so it cannot tidy up.",
            "start the operator; it lets go by itself when nothing can be done any more, and says what it left behind",
            &["systemctl status weaver-operator", "weaver orphans list"],
            &[],
        ),
        CascadeOrphanDeletes => known(
            Warn,
            "`--cascade orphan` reads `orphan` as a second name: the first object was deleted with what belongs to it.",
            "write `--cascade=orphan`; what is gone is listed by the copies that are not there any more",
            &["kubectl get events -A --sort-by=.lastTimestamp"],
            &[],
        ),
        OwnerInOtherNamespace => known(
            Fail,
            "An owner reference is looked up in the object's own namespace; from elsewhere the object counts as ownerless \
             and is deleted.",
            "remove the reference; Config Weaver marks its copies by a label instead",
            &[],
            &["https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/"],
        ),
        MintingForbidden => known(
            Fail,
            "Nobody has allowed it: the right is given for one account at a time.",
            "allow it; in a Role of your own: `create` on `serviceaccounts/token` in API group \"\", the core group",
            &["weaver tenant allow NAMESPACE ACCOUNT"],
            &[RBAC],
        ),
        RightMissing => known(
            Fail,
            "No Role that is bound to the account has it.",
            "grant it in the namespace where it is wanted",
            &["weaver tenant check NAMESPACE ACCOUNT"],
            &[RBAC],
        ),
        TokenTooShort => known(
            Fail,
            "The API server mints none for less than ten minutes.",
            "ask for 600 seconds or more",
            &[],
            &[],
        ),
        LeaseLost => known(
            Warn,
            "The database on the card did not answer in time: k3s needs writes that end within 10 ms, and many cards do not \
             keep that under load.",
            "use an SSD, or a card of class A2; take other writers off the card",
            &["weaver explain --journal k3s"],
            &["https://github.com/k3s-io/k3s/issues/2615", K3S_REQUIREMENTS],
        ),
        NoDefaultRoute => known(
            Fail,
            "k3s takes its address from the default route, also where there is no network to route to.",
            "connect the network; without one, a dummy interface is enough, until the next boot",
            &[
                "sudo ip link add dummy0 type dummy",
                "sudo ip addr add 203.0.113.254/31 dev dummy0",
                "sudo ip link set dummy0 up",
                "sudo ip route add default via 203.0.113.255 dev dummy0 metric 1000",
                RESTART_K3S,
            ],
            &[K3S_AIRGAP],
        ),
        UnderVoltage => known(
            Warn,
            "The supply or its cable gives less than 4.63 V under load, and writes to the card may fail then; or nothing takes \
             the heat away.",
            "use the supply made for the board and a short cable; give the board air; where `vcgencmd` is installed, \
             `vcgencmd get_throttled` says what the firmware knows",
            &[],
            &["https://github.com/raspberrypi/linux/issues/2367"],
        ),
        DiskPressure => known(
            Fail,
            "Images, logs or what pods write have filled the file system.",
            "remove what is not used",
            &["df -h /", "sudo k3s crictl rmi --prune"],
            &[],
        ),
        CardFails => known(
            Fail,
            "The kernel could not read or write the card, and has mounted it read-only to save what is there.",
            "copy what you need, and use another card and supply",
            &["sudo dmesg --level err,warn", "findmnt /"],
            &[],
        ),
        ClockBeforeFloor => known(
            Fail,
            "A Pi has no battery for its clock, and k3s ends itself before 1980.",
            "let the clock be set: by a network, or by hand",
            &["timedatectl", "sudo date -s 'YYYY-MM-DD hh:mm:ss'", RESTART_K3S],
            &[],
        ),
        ClockNotSynchronised => known(
            Warn,
            "No time server has answered; certificates made now may be of a wrong date.",
            "see whether one can be reached",
            &["timedatectl timesync-status"],
            &[],
        ),
        OverrideNotACode => known(
            Warn,
            "/boot/firmware/weaver-override has a line that is no code.",
            "write one code per line, such as N-01",
            &["cat /boot/firmware/weaver-override"],
            &[],
        ),
    }
}
