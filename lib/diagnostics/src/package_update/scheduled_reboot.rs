//! A reboot that is scheduled, as by unattended-upgrades: an update that it would cut off is not begun.

use super::plan::UpgradeRefusal;

/// Where systemd keeps it.
pub const SCHEDULED: &str = "/run/systemd/shutdown/scheduled";
/// As long as `weaver-update.service` may run once nothing else changes the node, in seconds.
const LONGEST_UPDATE: i64 = 2 * 60 * 60;

/// The reason against an update that begins now (in seconds since 1970), where the host goes down in the middle of it.
pub fn refusal(scheduled: &str, now: i64) -> Option<UpgradeRefusal> {
    let value = |name: &str| scheduled.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let at: i64 = value("USEC")?.parse().ok()?;
    let seconds = at / 1_000_000 - now;
    // What is over was cancelled, or the clock was wrong.
    (0..LONGEST_UPDATE).contains(&seconds).then(|| {
        let mode = value("MODE").unwrap_or("unknown");
        let what = format!("this host goes down in {} min ({mode})", seconds / 60);
        UpgradeRefusal::new(what, "update it afterwards; or cancel that: sudo shutdown -c")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_cut_the_update_off_refuses_it() {
        const NOW: i64 = 1_796_000_000;
        let scheduled = |seconds: i64| {
            format!("USEC={}\nWARN_WALL=1\nMODE=reboot\nUID=0\nTTY=\n", (NOW + seconds) * 1_000_000)
        };
        let says = |text: &str| refusal(text, NOW).map(|refusal| refusal.what);
        for (seconds, want) in [
            (-60, None),
            (0, Some("this host goes down in 0 min (reboot)")),
            (779, Some("this host goes down in 12 min (reboot)")),
            (7_199, Some("this host goes down in 119 min (reboot)")),
            (7_200, None),
            (80_000, None),
        ] {
            assert_eq!(says(&scheduled(seconds)).as_deref(), want, "{seconds}");
        }
        for text in ["", "MODE=reboot\n", "USEC=soon\nMODE=reboot\n", "USEC\n"] {
            assert_eq!(says(text), None, "{text}");
        }
    }
}
