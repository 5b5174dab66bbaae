//! The names of backups in a directory: which of them are a node's own, and which go.

const BEFORE: &str = "weaver-backup-";

/// The name of a backup; `stamp` is `20261127T082200Z`.
#[must_use]
pub fn of(node: &str, stamp: &str, is_encrypted: bool) -> String {
    let end = if is_encrypted { ".tar.age" } else { ".tar" };
    format!("{BEFORE}{node}-{stamp}{end}")
}

/// The stamp in the name of a backup of this node.
#[must_use]
pub fn stamp<'n>(name: &'n str, node: &str) -> Option<&'n str> {
    let plain = name.strip_suffix(".age").unwrap_or(name).strip_suffix(".tar")?;
    let stamp = plain.strip_prefix(BEFORE)?.strip_prefix(node)?.strip_prefix('-')?;
    let fits = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    (stamp.len() == 16 && stamp.bytes().enumerate().all(fits)).then_some(stamp)
}

/// Which of `names` go where the newest `keep` of this node stay. That which was just made stays, whatever the clock
/// said then; and so do those from before the stamp `since`, which another card of the same name may have made.
#[must_use]
pub fn surplus<'n>(names: &'n [String], node: &str, made: &str, since: &str, keep: usize) -> Vec<&'n str> {
    let own = names.iter().filter(|name| *name != made);
    let mut own: Vec<_> = own
        .filter_map(|name| Some((stamp(name, node)?, name.as_str())))
        .filter(|(stamp, _)| *stamp >= since)
        .collect();
    own.sort_unstable();
    let surplus = (own.len() + 1).saturating_sub(keep).min(own.len());
    own.into_iter().take(surplus).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        let stamp_of = |name: &str| stamp(name, "pi").map(str::to_owned);
        let name = of("pi", "20261127T082200Z", true);
        assert_eq!(name, "weaver-backup-pi-20261127T082200Z.tar.age");
        assert_eq!(stamp_of(&name).as_deref(), Some("20261127T082200Z"));
        for of_others in [
            "weaver-backup-pi-2-20261127T082200Z.tar",
            "weaver-backup-pi2-20261127T082200Z.tar",
            "weaver-backup-pi-20261127T082200Z.tar.gz",
            "weaver-backup-pi-20261127 082200Z.tar",
            "weaver-backup-pi-.tar",
            "weaver-backup-pi-20261127T08220äZ.tar",
            "photos",
            "",
        ] {
            assert_eq!(stamp_of(of_others), None, "{of_others}");
        }
    }

    #[test]
    fn the_oldest_of_this_node_go_and_never_the_new_one() {
        let at = |node: &str, day: u8| of(node, &format!("202611{day:02}T000000Z"), false);
        let names = [at("pi", 3), at("pi", 1), at("other", 1), at("pi", 2), "notes.txt".to_owned()];
        for (made, since, keep, want) in [
            (at("pi", 3), "", 3, vec![]),
            (at("pi", 3), "", 2, vec![at("pi", 1)]),
            (at("pi", 3), "", 1, vec![at("pi", 1), at("pi", 2)]),
            // A new card since the second.
            (at("pi", 3), "20261102T000000Z", 1, vec![at("pi", 2)]),
            (at("pi", 3), "20261103T000000Z", 1, vec![]),
            // A clock that was set back.
            (at("pi", 1), "", 2, vec![at("pi", 2)]),
            (at("pi", 1), "", 0, vec![at("pi", 2), at("pi", 3)]),
        ] {
            assert_eq!(surplus(&names, "pi", &made, since, keep), want, "{made} {keep}");
        }
    }
}
