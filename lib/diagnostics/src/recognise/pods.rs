//! What the scheduler and others say of pods that wait.

use super::details::{Details, after, has_any, is_name, is_plain};
use crate::finding::Remedy;

/// A pod as `kubectl get pods` lists it; the namespace as it stands in a command, or empty.
pub(super) struct ListedPod<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: String,
}

/// A line of `kubectl get pods` with one of these states: name, ready, status, restarts, age; with -A the namespace is
/// in front.
pub(super) fn listed<'a>(line: &'a str, wanted: &[&str]) -> Option<(ListedPod<'a>, &'a str)> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let at = columns
        .iter()
        .take(4)
        .position(|column| wanted.contains(&column.strip_prefix("Init:").unwrap_or(column)))?;
    let [.., name, ready, status] = columns[..=at] else { return None };
    let is_row = ready
        .split_once('/')
        .is_some_and(|(some, all)| some.parse::<u32>().is_ok() && all.parse::<u32>().is_ok());
    let namespace = if at == 3 { columns.first().filter(|name| is_name(name)) } else { None };
    let namespace = namespace.map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    (is_row && is_name(name)).then_some((ListedPod { name, namespace }, status))
}

pub(super) fn evicted(line: &str) -> Option<Details> {
    let (ListedPod { name, namespace }, _) = listed(line, &["Evicted"])?;
    Some(
        Details::message(format!("the pod {name} was evicted: its node was short of memory or disk, or it used more than its limit"))
            .advice(
                "its message says which; once that is solved, delete the pod. A Deployment has started another one already",
            )
            .command(format!("kubectl describe pod{namespace} {name}"))
            .command("kubectl describe nodes | grep -i pressure")
            .command("kubectl delete pod -n NAMESPACE POD"),
    )
}

/// A `PersistentVolumeClaim` that a pod names and that is missing.
pub(super) fn claim_gone(line: &str) -> Option<Details> {
    let name = after(line, "persistentvolumeclaim \"", &['"'])?;
    line.contains("\" not found")
        .then(|| Details::message(format!("the pod names the claim `{name}`, which does not exist")))
}

pub(super) fn class_gone(line: &str) -> Option<Details> {
    let name = after(line, "storageclass.storage.k8s.io \"", &['"'])?;
    line.contains("\" not found")
        .then(|| Details::message(format!("the claim names the StorageClass `{name}`, which does not exist")))
}

pub(super) fn other_node(_: &str) -> Details {
    Details::message("the volume of the pod is on a node on which the pod may not run")
        .advice(
            "a local-path volume stays on the node that created it: run the pod there, or bring that node back; if \
            the node is gone for good, delete the claim, with its data",
        )
        .command("kubectl get pv -o wide")
        .command("kubectl get nodes")
}

/// In the wording of current and earlier schedulers.
pub(super) fn does_not_fit(line: &str) -> Option<Details> {
    if !line.contains("nodes are available") {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let lacks = |words: &str| lower.contains(words);
    let what = match (lacks("insufficient memory"), lacks("insufficient cpu")) {
        (true, true) => "the memory and the CPU that it requests",
        (true, false) => "the memory that it requests",
        (false, true) => "the CPU that it requests",
        (false, false) => "room for another pod (limit of pods per node)",
    };
    Some(Details::message(format!("no node that the pod may run on has {what}")))
}

pub(super) fn ports(line: &str) -> Option<Details> {
    line.contains("nodes are available").then(|| {
        Details::message("a pod requests a host port that another pod uses")
            .advice(
                "two pods of one node cannot have the same `hostPort`: Traefik of k3s has 80 and 443, and each Service of type \
                 LoadBalancer has its ports on all nodes",
            )
            .command("kubectl get services -A --field-selector spec.type=LoadBalancer")
            .command("kubectl -n kube-system get pods -l svccontroller.k3s.cattle.io/svcname -o wide")
    })
}

pub(super) fn not_enough(line: &str) -> Details {
    let what = after(line, "enough resource: ", &[',', ' ', '"'])
        .filter(|what| is_plain(what))
        .unwrap_or("a resource");
    Details::message(format!("the node has less {what} than the pod requests"))
}

/// What the kubelet repeats of a program that mounts, in a log or in an event.
fn is_of_a_mount(line: &str) -> bool {
    has_any(line, &["MountVolume", "Output: mount", "/var/lib/kubelet/"])
}

/// mount's words for a kind of file system that it has no program for.
pub(super) fn without_mount_helper(line: &str) -> Option<Details> {
    let is_of = |kind: &str| line.contains(&format!("-t {kind}")) || line.contains(&format!("~{kind}/"));
    let remedy = if is_of("nfs") {
        Remedy::new("install the program on each node that may run the pod")
            .command("sudo apt install nfs-common")
    } else if is_of("cifs") {
        Remedy::new("install the program on each node that may run the pod")
            .command("sudo apt install cifs-utils")
    } else {
        Remedy::new(
            "install the program on each node that may run the pod: nfs-common for NFS, cifs-utils for SMB. If it is \
             installed, a mount option is wrong",
        )
        .command("sudo apt install nfs-common")
        .command("sudo apt install cifs-utils")
    };
    is_of_a_mount(line).then(|| {
        Details::message("the node lacks the program that mounts the volume of a pod").remedy(remedy)
    })
}

/// Longhorn brings its volumes to a node by iSCSI.
pub(super) fn without_iscsi(_: &str) -> Details {
    Details::message("Longhorn does not run on a node without open-iscsi")
        .advice("install it on each node; the pods of Longhorn start again by themselves")
        .command("sudo apt-get install open-iscsi")
        .command("sudo systemctl enable --now iscsid")
}

/// open-iscsi's own word, which Longhorn and other drivers repeat. longhorn#1698
pub(super) fn iscsid_off(line: &str) -> Option<Details> {
    line.contains("iscsiadm").then(|| {
        Details::message("a volume is not attached: iscsid does not run on the node")
            .advice("install it where it is missing, and start it on each node; the volume follows by itself")
            .command("sudo apt-get install open-iscsi")
            .command("sudo systemctl enable --now iscsid")
            .command("sudo cat /etc/iscsi/initiatorname.iscsi")
    })
}

/// The controller of volumes, of a driver that does not answer, in two wordings of Kubernetes'
/// `pkg/volume/csi/csi_attacher.go`. longhorn#2319
pub(super) fn not_attached(line: &str) -> Option<Details> {
    let driver = after(line, "external-attacher of ", &[' ']).filter(|driver| is_name(driver));
    let whose = driver.map_or_else(String::new, |driver| format!(": its driver {driver} does not answer"));
    line.contains("AttachVolume.").then(|| {
        Details::message(format!("a volume is not attached in time{whose}"))
            .advice(
                "see that the pods of the driver run, on the node of the pod too, and what they say of the volume. Where the driver \
                 was removed, the volume waits for it",
            )
            .command("kubectl get csinodes")
            .command("kubectl get volumeattachments")
            .command("kubectl get pods -A -o wide | grep -iE 'csi|longhorn'")
    })
}

pub(super) fn nfs_fails(line: &str) -> Option<Details> {
    nfs_failed(after(line, "mount.nfs: ", &['\n']).filter(|_| is_of_a_mount(line))?)
}

/// busybox, which the nodes of k3d have for it. k3s#103, k3d#1109
pub(super) fn busybox_nfs_fails(line: &str) -> Option<Details> {
    let (_, why) = line.split_once("mount: mounting ")?.1.split_once(" failed: ")?;
    if !line.contains("kubernetes.io~nfs/") {
        return None;
    }
    if !why.contains("Connection refused") {
        return nfs_failed(why);
    }
    Some(
        Details::message("a node without an NFS client of its own, as those of k3d, does not mount a volume")
            .advice(
                "NFS 3 asks the node for locks, which nothing there has: name `nfsvers=4` or `nolock` in `mountOptions` of the \
                 volume or of its StorageClass. If that is there, check that the server is on and lets the node in on TCP port \
                 2049",
            )
            .command("kubectl get pv -o yaml | grep -A3 mountOptions")
            .command("# on the server:")
            .command("sudo exportfs -v"),
    )
}

fn nfs_failed(what: &str) -> Option<Details> {
    let says = |words: &[&str]| words.iter().any(|words| what.contains(words));
    let (message, explain) = if says(&["timed out", "No route to host", "Connection refused"]) {
        (
            "the NFS server of a volume does not answer the node",
            "check that the server is on, has the address of the volume, and lets the node in on TCP port 2049",
        )
    } else if says(&["access denied by server"]) {
        (
            "the NFS server refuses the node the directory of a volume",
            "add the address of each node to the line of this directory in /etc/exports of the server",
        )
    } else if says(&["No such file or directory"]) {
        (
            "the NFS server does not have the directory of a volume",
            "compare the path of the volume with the directories that the server exports",
        )
    } else if says(&["Stale file handle"]) {
        (
            "the NFS server has another directory than the one that the node has mounted",
            "delete the pod, so that a node mounts the volume again; if it comes back, the file system behind the export was made \
             again: export it again on the server",
        )
    } else if says(&["Protocol not supported", "transport protocol is not supported"]) {
        (
            "the node and the NFS server have no version of NFS in common",
            "name a version that the server has in `mountOptions` of the volume or of its StorageClass, as `nfsvers=3` where \
             it has no 4. The node needs nfs-common, and for version 3 netbase",
        )
    } else {
        return None;
    };
    Some(
        Details::message(message)
            .advice(explain)
            .command("kubectl get pv -o wide")
            .command("# on the node:")
            .command("nc -vz SERVER 2049")
            .command("# on the server:")
            .command("sudo exportfs -v"),
    )
}

/// A volume of a network's storage, as of Longhorn, that one node at a time can have.
pub(super) fn attached_elsewhere(line: &str) -> Details {
    let whom =
        after(line, "for volume \"", &['"', '\\']).filter(|name| is_plain(name)).unwrap_or("of the pod");
    Details::message(format!("the volume {whom} is still attached to another node"))
        .advice(
            "a ReadWriteOnce volume is for one node at a time: wait until the pod on the other node has ended. A Deployment needs \
             one replica and `strategy: {type: Recreate}`. If the other node is off and stays off, the taint \
             `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute` on it frees the volume; never set it on a node that runs",
        )
        .command("kubectl get volumeattachments")
        .command("kubectl get pods -A -o wide")
        .command("kubectl get nodes")
}

/// multipathd, which Ubuntu starts, takes each disk that appears, and so that of a volume. longhorn#1819 and #1210
pub(super) fn taken_on_the_node(line: &str) -> Option<Details> {
    line.contains("/dev/longhorn/").then(|| {
        Details::message("a volume of Longhorn is not mounted: its node uses the disk already, most often by multipathd")
            .advice(
                "if `lsblk` shows the volume below a disk as `mpath`, turn multipathd off: a Pi has no disk with two paths. On a \
                 machine that has one, exclude the disks of Longhorn in the section blacklist of /etc/multipath.conf. Then delete \
                 the pod; a Deployment starts another one",
            )
            .command("# on the node:")
            .command("lsblk")
            .command("sudo systemctl disable --now multipathd.socket multipathd.service")
            .hint()
    })
}

/// local-path makes the directory of a volume in a pod on the node.
pub(super) fn helper_pod(_: &str) -> Details {
    Details::message(
        "no volume is made: the pod with which local-path makes its directory did not end in time",
    )
    .advice("see what that pod waits for, most often its image or its node")
    .command("kubectl -n kube-system get pods -o wide | grep helper-pod")
    .command("kubectl -n kube-system logs -l app=local-path-provisioner --tail 20")
}

/// While a volume is made, everyone waits; after minutes it is not made.
pub(super) fn still_waits(line: &str) -> Option<Details> {
    // `2s (x26 over 6m9s)`
    let over = after(line, " over ", &[')'])?;
    let is_long = over.contains(['h', 'd'])
        || over.split_once('m').is_some_and(|(minutes, _)| minutes.parse::<u32>().is_ok_and(|m| m >= 2));
    is_long.then(|| {
        let by = after(line, "external provisioner '", &['\''])
            .filter(|name| is_plain(name))
            .unwrap_or("the provisioner");
        Details::message(format!("no volume is made: {by} does not answer"))
            .advice("check that its pod runs; that of k3s for local-path is in kube-system")
            .command("kubectl -n kube-system get pods -l app=local-path-provisioner")
            .command("kubectl -n kube-system logs -l app=local-path-provisioner --tail 20")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicted_pod_is_named_in_its_namespace() {
        let commands = |line| evicted(line).map(|details| details.remedy.unwrap().commands);
        let described = |line| commands(line).map(|commands| commands[0].to_string());
        assert_eq!(described("web 0/1 Evicted 0 3d").as_deref(), Some("kubectl describe pod web"));
        assert_eq!(
            described("team web 0/1 Evicted 0 3d").as_deref(),
            Some("kubectl describe pod -n team web")
        );
        for line in [
            "web 0/x Evicted 0 3d",
            "$(reboot) 0/1 Evicted 0 3d",
            "Warning  Evicted  5s  kubelet  The node",
            "",
        ] {
            assert_eq!(commands(line), None, "{line}");
        }
    }

    #[test]
    fn a_mount_that_fails_says_what_the_node_or_the_server_lacks() {
        let helper = "bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.";
        for (before, want) in [
            ("Output: mount: /var/lib/kubelet/pods/a/volumes/kubernetes.io~nfs/b: ", vec!["nfs-common"]),
            (
                "MountVolume.SetUp failed: Mounting arguments: -t cifs //nas/x /x Output: mount: ",
                vec!["cifs-utils"],
            ),
            ("MountVolume.SetUp failed: Output: mount: ", vec!["nfs-common", "cifs-utils"]),
        ] {
            let commands =
                without_mount_helper(&format!("{before}{helper}")).unwrap().remedy.unwrap().commands;
            let commands: Vec<_> = commands.iter().map(ToString::to_string).collect();
            let want: Vec<_> =
                want.into_iter().map(|package| format!("sudo apt install {package}")).collect();
            assert_eq!(commands, want, "{before}");
        }
        assert_eq!(without_mount_helper(&format!("mount: /mnt/nas: {helper}")), None);
        for (line, want) in [
            ("Output: mount.nfs: Connection timed out", Some("does not answer")),
            ("Output: mount.nfs: access denied by server while mounting nas:/x", Some("refuses")),
            (
                "Output: mount.nfs: mounting nas:/x failed, reason given by server: No such file or directory",
                Some("does not have"),
            ),
            ("Output: mount.nfs: Protocol not supported", Some("no version of NFS in common")),
            ("Output: mount.nfs: an incorrect mount option was specified", None),
            ("mount.nfs: Connection timed out", None),
        ] {
            let message = nfs_fails(line).and_then(|details| details.message);
            assert_eq!(message.is_some(), want.is_some(), "{line}");
            assert!(message.unwrap_or_default().contains(want.unwrap_or_default()), "{line}");
        }
    }
}
