//! What the kernel and the system say of the host.

use crate::finding::Code;
use crate::recognise::wording::{Wording, judged, known, repeated, says, tells};
use crate::recognise::{card, host, tls, wear};

pub(super) const FIRST: &[(Code, &[Wording])] = &[
    // The kernel names a process first, which may be called as an error is.
    (Code::CardSlow, &[judged("blocked for more than ", host::stuck)]),
    // Before a full or read-only root file system.
    (
        Code::BootPartitionUnwritable,
        &[
            judged("no space left on device", card::boot_partition),
            judged("read-only file system", card::boot_partition),
            says("fat-fs (mmcblk0p1): filesystem has been set read-only"),
            says("missing /boot/firmware, did you forget to mount it"),
        ],
    ),
    (
        Code::WatchesExhausted,
        &[
            says("fsnotify watcher: too many open files"),
            says("inotify cannot be used, reverting to polling: too many open files"),
            says("system limit for number of file watchers reached"),
            says("directory watch: no space left on device"),
            says("directory watch: too many open files"),
            judged("inotify_add_watch", host::watches),
            says("user limit of inotify instances reached"),
            says("user limit of inotify watches reached"),
        ],
    ),
];

pub(super) const REST: &[(Code, &[Wording])] = &[
    // Before the kernel lacks something, of which it speaks too.
    (
        Code::SnapshotterUnusable,
        &[
            says("snapshotter cannot be enabled for "),
            judged("not supported as upperdir", host::upper_of_k3s),
        ],
    ),
    (
        Code::PageSizeUnsupported,
        &[
            says("unsupported system page size"),
            says("elf load command alignment not page-aligned"),
            says("elf load command address/offset not page-aligned"),
        ],
    ),
    (
        Code::PackagesHalfInstalled,
        &[
            says("dpkg was interrupted, you must manually run"),
            says("in a very bad inconsistent state"),
            judged("files list file for package '", host::damaged_list),
        ],
    ),
    (
        Code::PackagesLocked,
        &[
            judged("could not get lock /var/", host::package_lock),
            judged("unable to acquire the dpkg frontend lock", host::package_lock),
            tells("frontend lock was locked by another process", host::packages_locked),
            judged("unable to lock the administration directory", host::package_lock),
        ],
    ),
    (
        Code::ModuleMissing,
        &[
            judged("modprobe: fatal: module ", host::module),
            judged("modprobe: warning: module ", host::module),
            says("failed to initialize nft: protocol not supported"),
            says("can't initialize iptables table"),
            says("can't initialize ip6tables table"),
            says("couldn't load match `"),
            says("couldn't find match `"),
            says("not supported, missing kernel module?"),
            says("rule_append failed (no such file or directory)"),
            judged("vxlan", host::no_vxlan),
            judged("operation not supported", host::flannel),
            judged("bridge-nf-call-iptables", host::no_br_netfilter),
            judged("bridge-nf-call-ip6tables", host::no_br_netfilter),
        ],
    ),
    (
        Code::IptablesMixed,
        &[
            says("iptables-legacy tables present, use iptables-legacy"),
            says("ip6tables-legacy tables present, use ip6tables-legacy"),
        ],
    ),
    (
        Code::NetworkConfigFault,
        &[
            says("error in network definition"),
            says("invalid network-config provided"),
            says("network-config failed schema validation"),
            judged(": invalid yaml: ", host::netplan_yaml),
        ],
    ),
    (
        Code::UserDataFault,
        &[
            says("cloud config schema errors"),
            says("failed loading yaml blob"),
            says("cloud-config failed schema validation"),
            says("unhandled non-multipart (text/x-not-multipart) userdata"),
        ],
    ),
    (
        Code::NoDefaultRoute,
        &[
            says("no default routes found"),
            says("unable to find default route"),
            says("unable to select an ip from default routes"),
        ],
    ),
    (
        Code::WifiRefused,
        &[
            says("reason=wrong_key"),
            says("pre-shared key may be incorrect"),
            judged("secrets were required, but not provided", card::wifi_secrets),
            judged("(reason 'no-secrets'", card::wifi_secrets),
            repeated("(reason 'ssid-not-found'", 2, card::wifi_absent),
            tells("no network with ssid '", card::wifi_unknown),
        ],
    ),
    (
        Code::UnderVoltage,
        &[
            says("undervoltage detected"),
            says("under-voltage detected"),
            judged("throttled=0x", host::throttled),
            says("cpu clock throttled"),
            judged("critical temperature reached", host::too_hot),
            repeated(": over-current change", 3, host::over_current),
            repeated("over-current condition", 3, host::over_current),
        ],
    ),
    (
        Code::CardWorn,
        &[
            judged("ext_csd_device_life_time_est_typ_", wear::life_time),
            judged("ext_csd_pre_eol_info]", wear::end_of_life),
            judged("percentage used:", wear::percentage),
            tells("self-assessment test result: failed!", wear::smart),
        ],
    ),
    (
        Code::CardFailing,
        &[
            judged("read-only file system", host::read_only),
            known("remounting filesystem read-only", card::remounted),
            judged("critical medium error, dev ", card::medium),
            known("i/o error, dev ", card::device_fails),
            known("critical target error, dev ", card::device_fails),
            known("buffer i/o error on dev", card::buffer),
            judged(": error -", card::error_number),
            judged("timeout waiting for hardware ", card::timeout),
            judged("card stuck being busy", card::timeout),
            judged("card never left busy state", card::timeout),
            judged("cache flush error", card::timeout),
            judged("whilst initialising ", card::initialising),
            says("final write to sd card still running"),
            judged(": tried to reset card", card::timeout),
            repeated(": running cqe recovery", 2, card::queueing),
            known(": r/w command failed, status", card::of_a_card),
            known(": recovery failed!", card::of_a_card),
            known("aborting journal on device ", card::of_a_card),
            known("when updating journal superblock for ", card::of_a_card),
            known("ext4-fs error (device ", card::of_a_card),
            known("i/o error while writing superblock", card::of_a_card),
            known("ext4-fs warning (device ", card::end_io),
            known("error count since last fsck", card::recorded),
            judged("structure needs cleaning", card::unclean),
            tells(": controller is down; will reset", card::nvme_down),
            judged(" timeout, reset controller", card::nvme_silent),
            judged(" timeout, disable controller", card::nvme_silent),
            repeated(" timeout, aborting", 3, card::nvme_silent),
            judged("disk i/o error", card::of_the_datastore),
        ],
    ),
    (
        Code::UsbDiskFails,
        &[
            says("uas_eh_abort_handler"),
            says("uas_eh_device_reset_handler start"),
            says("uas_zap_pending"),
            judged("data cmplt err -", card::of_uas),
            known("i/o error, dev ", card::of_a_usb_disk),
            known("critical target error, dev ", card::of_a_usb_disk),
            known("ext4-fs error (device ", card::of_a_usb_disk),
            known("aborting journal on device ", card::of_a_usb_disk),
            known("remounting filesystem read-only", card::of_a_usb_disk),
            known("device offlined - not ready after error recovery", card::offlined),
            tells("xhci host controller not responding, assume dead", card::usb_controller),
        ],
    ),
    (
        Code::DiskPressure,
        &[
            judged("no space left on device", host::full),
            says("database or disk is full"),
            judged("node.kubernetes.io/disk-pressure", host::tainted),
            judged("resourcename=\"ephemeral-storage\"", host::evicting),
            says("kubelethasdiskpressure"),
            says("status is now: nodehasdiskpressure"),
            says("the node had condition: [diskpressure]"),
            says("failed to garbage collect required amount of images"),
        ],
    ),
    (Code::ClockBeforeFloor, &[says("server time isn't set properly")]),
    (
        Code::ClockNotSynchronised,
        &[
            says("system clock synchronized: no"),
            says("ntp synchronized: no"),
            says("is not valid yet (invalid for another "),
            says("server has too large root distance"),
            judged("certificate chain uses not yet valid certificate", tls::clock_behind),
            judged("is not yet valid: current time", tls::clock_behind),
        ],
    ),
];
