//! What apt and dpkg say when they fail, and what to do about it.

use super::plan::UpgradeRefusal;
use crate::finding_text::cut;

/// Characters of its output that are shown.
const MAX_MESSAGE: usize = 240;

/// Of a file that a list names.
const MISSING: &[&str] = &["404  Not Found", "File not found", "Unable to locate package"];

/// Their words, what that means, and what to do. The first that matches counts: what follows from another
/// is below it.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (
        &[
            "Could not get lock",
            "Unable to acquire the dpkg frontend lock",
            "frontend lock was locked",
            "Unable to lock",
            // Of unattended-upgrades.
            "Lock could not be acquired",
        ],
        "another program is installing packages",
        "wait until it has finished, and try again; `ps -e | grep -E 'apt|dpkg|unattended'` shows it. Never remove the lock file",
    ),
    (&["dpkg was interrupted"], "an installation was interrupted earlier", "sudo dpkg --configure -a"),
    (
        &["did you forget to mount it"],
        "the boot partition is not mounted, which another package needs",
        "sudo mount /boot/firmware, then sudo dpkg --configure -a",
    ),
    (
        &["/boot/firmware", "No space left on device"],
        "the boot partition is full",
        "ls -l /boot/firmware: remove what you have put there, such as old kernels; then sudo dpkg --configure -a",
    ),
    (
        &["No space left on device", "don't have enough free space", "Not enough free disk space"],
        "the disk is full",
        "run `sudo apt-get clean`; `sudo du -xh / | sort -h | tail` shows what uses the space",
    ),
    (
        &["is not valid yet", "was created after the --not-after"],
        "this host's clock is before the date of the repository",
        "set the clock: timedatectl",
    ),
    (
        &[" is expired (invalid since"],
        "the repository has expired",
        "if the date of this host is right (`date`), have its owner run `make apt` again",
    ),
    (
        &["Failed to parse keyring", "in the keyring", "not readable by user"],
        "the key of the repository cannot be read",
        "put config-weaver.asc, which is next to the packages, where Signed-By in /etc/apt/sources.list.d names it",
    ),
    (
        &["EXPKEYSIG", "KEYEXPIRED", "certificate is expired", "key has expired", "expired on"],
        "the key that signs the repository has expired",
        "have its owner extend it, and take the new config-weaver.asc",
    ),
    (
        &["Certificate verif", "certificate verify failed", "SSL connection failed", "handshake"],
        "the certificate of the repository's server is not trusted",
        "set the clock (`timedatectl`), or add the server's CA: /usr/local/share/ca-certificates, sudo update-ca-certificates",
    ),
    (
        &["NO_PUBKEY", "Missing key"],
        "the repository is signed with another key than the one of this source",
        "take config-weaver.asc of that repository, if it is the one that you mean: compare its fingerprint with its owner's",
    ),
    (
        &[
            "BADSIG",
            "manipulated",
            "verification failed",
            "couldn't be verified",
            "is not signed",
            "Clearsigned file",
        ],
        "the signature of the repository is wrong",
        "nothing was installed. It was changed in transit or not copied completely: copy it again",
    ),
    (
        &["does not have a Release file"],
        "there is no repository at this address",
        "see whether the address is right and, for file:, the stick is mounted: cat /etc/apt/sources.list.d/config-weaver.sources; findmnt",
    ),
    (
        &["Hash Sum mismatch", "File has unexpected size", "Size mismatch"],
        "the repository is incomplete, or one of its files was changed",
        "have its owner copy it again, whole: the packages first, dists last",
    ),
    (
        &["Could not resolve", "Temporary failure resolving"],
        "the name of the repository's server is not known: there is no network or no DNS",
        "ip route; resolvectl query HOST",
    ),
    (
        &[
            "Could not connect",
            "Unable to connect",
            "Cannot initiate the connection",
            "Connection timed out",
            "Connection refused",
            "Network is unreachable",
            "Connection failed",
        ],
        "the repository's server does not answer",
        "see whether it runs and this host reaches it: curl -I ADDRESS, ip route",
    ),
    (
        MISSING,
        "the repository is incomplete: a file that it lists is missing",
        "have its owner copy it again, whole: the packages first, dists last",
    ),
    (
        &["does not match system"],
        "the package is for another architecture",
        "dpkg --print-architecture says what this host needs: `make deb` makes arm64 and amd64",
    ),
    (
        &["Packages need to be removed"],
        "apt would have to remove another package",
        "see which, and whether you need it: sudo apt-get install -s config-weaver",
    ),
    (
        &["unmet dependencies", "held broken packages"],
        "what the new packages depend on is not available",
        "sudo apt-get update, and see what apt says: sudo apt-get install -s config-weaver",
    ),
    (&["Permission denied", "are you root"], "only root may install packages", "run the command with sudo"),
];

/// The addresses of a source of apt, as it names them.
pub fn addresses(source: &str) -> Vec<String> {
    let mut is_address = false;
    let mut addresses = Vec::new();
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        let field = line.split_once(':').filter(|_| !line.starts_with([' ', '\t']));
        if let Some((name, _)) = field {
            is_address = name.eq_ignore_ascii_case("URIs");
        }
        let values = field.map_or(line, |(_, values)| values).split_whitespace().filter(|_| is_address);
        addresses
            .extend(values.map(|value| value.trim_end_matches('/').replacen("file:///", "file:/", 1) + "/"));
    }
    addresses
}

/// What the words of a failed program mean, where our packages come from these [`addresses`].
pub fn explained(message: &str, addresses: &[String]) -> UpgradeRefusal {
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    for (signs, what, remedy) in KNOWN {
        // Of the boot partition both must be said, in one line.
        let both = *what == "the boot partition is full";
        let is_it = |line: &&str| {
            if both {
                signs.iter().all(|sign| line.contains(sign))
            } else {
                signs.iter().any(|sign| line.contains(sign))
            }
        };
        if let Some(line) = lines().find(is_it) {
            let is_ours = addresses.iter().any(|address| line.contains(address));
            let (what, remedy) = if *signs == MISSING && !is_ours {
                ("the package lists of another apt source are out of date", "sudo apt-get update")
            } else {
                (*what, *remedy)
            };
            return UpgradeRefusal::new(format!("{what} ({})", cut(line, MAX_MESSAGE)), remedy);
        }
    }
    let is_error = |line: &&str| line.starts_with("E:") || line.starts_with("dpkg: error");
    let said = lines().find(is_error).or_else(|| lines().next_back()).unwrap_or("it said nothing");
    let remedy = "see all of it: sudo tail -n 50 /var/log/apt/term.log";
    UpgradeRefusal::new(format!("it failed ({})", cut(said, MAX_MESSAGE)), remedy)
}

#[cfg(test)]
mod tests;
