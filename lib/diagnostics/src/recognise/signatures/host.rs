//! What the kernel and the system say of the host.

use crate::finding::Code;
use crate::recognise::wording::{Wording, judged, says, tells};
use crate::recognise::{card, host, wear};

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
        ],
    ),
];

pub(super) const REST: &[(Code, &[Wording])] = &[
    (
        Code::ModuleMissing,
        &[
            judged("modprobe: fatal: module ", host::module),
            says("can't initialize iptables table"),
            says("can't initialize ip6tables table"),
            says("couldn't load match `"),
            says("couldn't find match `"),
            says("not supported, missing kernel module?"),
            judged("vxlan", host::no_vxlan),
            judged("operation not supported", host::flannel),
            judged("bridge-nf-call-iptables", host::no_br_netfilter),
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
        Code::CardFails,
        &[
            judged("read-only file system", host::read_only),
            judged("remounting filesystem read-only", card::remounted),
            judged("i/o error, dev ", card::device_fails),
            judged("buffer i/o error on dev", card::device_fails),
            judged(": error -", card::error_number),
            judged("timeout waiting for hardware ", card::timeout),
            judged("card stuck being busy", card::timeout),
            judged("card never left busy state", card::timeout),
            judged("cache flush error", card::timeout),
            judged("whilst initialising ", card::initialising),
            judged(": recovery failed!", card::of_a_card),
            judged("aborting journal on device ", card::of_a_card),
            judged("when updating journal superblock for ", card::of_a_card),
            judged("ext4-fs error (device ", card::of_a_card),
            judged("i/o error while writing superblock", card::of_a_card),
            judged("disk i/o error", card::of_the_datastore),
        ],
    ),
    (
        Code::UsbDiskFails,
        &[
            says("uas_eh_abort_handler"),
            says("uas_eh_device_reset_handler start"),
            judged("i/o error, dev ", card::of_a_usb_disk),
            judged("critical target error, dev ", card::of_a_usb_disk),
            judged("ext4-fs error (device ", card::of_a_usb_disk),
            judged("aborting journal on device ", card::of_a_usb_disk),
            judged("remounting filesystem read-only", card::of_a_usb_disk),
            says("xhci host controller not responding, assume dead"),
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
        ],
    ),
];
