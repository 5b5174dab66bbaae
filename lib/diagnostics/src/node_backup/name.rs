//! The names of backups in a directory: which of them are a node's own, and which go.

const BEFORE: &str = "weaver-backup-";

/// Follows the stamp of one that parts of volumes are left out of.
const INCOMPLETE: &str = "-incomplete";

/// Characters of a CA's fingerprint in a name.
const FINGERPRINT: usize = 8;

/// Whose backups they are: two nodes of one name that use one share have a CA each.
pub fn owner(node: &str, ca: Option<&str>) -> String {
    match ca.and_then(|ca| ca.get(..FINGERPRINT)) {
        Some(ca) => format!("{node}-{ca}"),
        None => node.to_owned(),
    }
}

/// The name of a backup of this [`owner`]; `stamp` is `20261127T082200Z`.
pub fn of(owner: &str, stamp: &str, is_encrypted: bool) -> String {
    let end = if is_encrypted { ".tar.age" } else { ".tar" };
    format!("{BEFORE}{owner}-{stamp}{end}")
}

/// The name of the same where parts of volumes are left out: another one, whatever the name.
pub fn incomplete(name: &str) -> String {
    let end = [".tar.age", ".tar"].into_iter().find(|end| name.ends_with(end)).unwrap_or_default();
    format!("{}{INCOMPLETE}{end}", name.strip_suffix(end).unwrap_or(name))
}

/// The name of a backup without what comes after the stamp, and whether all of it is in it.
fn plain(name: &str) -> Option<(&str, bool)> {
    let plain = name.strip_suffix(".age").unwrap_or(name).strip_suffix(".tar")?;
    Some(plain.strip_suffix(INCOMPLETE).map_or((plain, true), |plain| (plain, false)))
}

/// The stamp in the name of a backup of this owner.
pub fn stamp<'n>(name: &'n str, owner: &str) -> Option<&'n str> {
    let (plain, _) = plain(name)?;
    let stamp = plain.strip_prefix(BEFORE)?.strip_prefix(owner)?.strip_prefix('-')?;
    let fits = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    (stamp.len() == 16 && stamp.bytes().enumerate().all(fits)).then_some(stamp)
}

/// Which of `names` go where the newest `keep` of this owner stay. That which was just made stays, whatever the clock
/// said then; and so do those from before the stamp `since`, which another card may have made.
///
/// Those from the future, by a clock that was wrong then or is now, are counted by themselves: they neither push out
/// what is made from now on, nor pile up.
///
/// While the new one is not complete, the newest that is stays in addition: a pod may keep all new ones incomplete.
pub fn surplus<'n>(names: &'n [String], owner: &str, made: &str, since: &str, keep: usize) -> Vec<&'n str> {
    let own = names.iter().filter(|name| *name != made);
    let own = own.filter_map(|name| Some((stamp(name, owner)?, name.as_str())));
    let own = own.filter(|(stamp, _)| *stamp >= since);
    let now = stamp(made, owner).unwrap_or_default();
    let (future, past): (Vec<_>, Vec<_>) = own.partition(|(stamp, _)| *stamp > now);
    let is_complete = |name: &str| plain(name).is_some_and(|(_, is_complete)| is_complete);
    let oldest = |mut group: Vec<(&'n str, &'n str)>, keep: usize| {
        group.sort_unstable();
        let surplus = group.len().saturating_sub(keep);
        let newest = group.iter().rev().map(|(_, name)| *name).find(|name| is_complete(name));
        let stays = newest.filter(|_| !is_complete(made));
        group.into_iter().take(surplus).map(|(_, name)| name).filter(move |name| Some(*name) != stays)
    };
    oldest(past, keep.saturating_sub(1)).chain(oldest(future, keep)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        let stamp_of = |name: &str| stamp(name, "pi").map(str::to_owned);
        let name = of("pi", "20261127T082200Z", true);
        assert_eq!(name, "weaver-backup-pi-20261127T082200Z.tar.age");
        assert_eq!(incomplete(&name), "weaver-backup-pi-20261127T082200Z-incomplete.tar.age");
        let plain = incomplete(&of("pi.tar", "20261127T082200Z", false));
        assert_eq!(plain, "weaver-backup-pi.tar-20261127T082200Z-incomplete.tar");
        for (chosen, other) in
            [("b.tar", "b-incomplete.tar"), ("pi.target", "pi.target-incomplete"), ("b", "b-incomplete")]
        {
            assert_eq!(incomplete(chosen), other);
        }
        for name in [incomplete(&name), name] {
            assert_eq!(stamp_of(&name).as_deref(), Some("20261127T082200Z"));
        }
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
    fn two_nodes_of_one_name_leave_each_others_alone() {
        let (one, other) = (owner("pi", Some(&"0a".repeat(32))), owner("pi", Some(&"0b".repeat(32))));
        assert_eq!((one.as_str(), owner("pi", None).as_str()), ("pi-0a0a0a0a", "pi"));
        let at = |owner: &str, day: u8| of(owner, &format!("202611{day:02}T000000Z"), false);
        let names = [at(&one, 1), at(&other, 1), at("pi", 1), at(&other, 2)];
        assert_eq!(surplus(&names, &one, &at(&one, 3), "", 1), [at(&one, 1)]);
        assert_eq!(surplus(&names, "pi", &at("pi", 3), "", 1), [at("pi", 1)], "one without a CA yet");
        // A fingerprint of digits is no stamp.
        assert_eq!(stamp("weaver-backup-pi-12345678-20261101T000000Z.tar", "pi"), None);
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
            // A clock that was set back, or was wrong before.
            (at("pi", 1), "", 2, vec![]),
            (at("pi", 1), "", 1, vec![at("pi", 2)]),
            (at("pi", 2), "", 1, vec![at("pi", 1)]),
            (at("pi", 1), "", 0, vec![at("pi", 2), at("pi", 3)]),
        ] {
            assert_eq!(surplus(&names, "pi", &made, since, keep), want, "{made} {keep}");
        }
    }

    #[test]
    fn those_that_are_not_complete_never_push_out_the_newest_that_is() {
        let at = |day: u8| of("pi", &format!("202611{day:02}T000000Z"), false);
        let part = |day: u8| incomplete(&at(day));
        for (names, made, keep, want) in [
            (vec![at(1), at(2)], part(3), 1, vec![at(1)]),
            (vec![at(1), at(2)], part(3), 2, vec![at(1)]),
            (vec![at(1), part(2)], part(3), 1, vec![part(2)]),
            (vec![at(1), part(2), part(3)], part(4), 2, vec![part(2)]),
            (vec![part(1), part(2)], part(3), 1, vec![part(1), part(2)]),
            (vec![at(1), part(2), part(3)], at(4), 2, vec![at(1), part(2)]),
            // By a clock that was set back.
            (vec![at(3), part(4), part(5)], part(1), 1, vec![part(4)]),
        ] {
            assert_eq!(surplus(&names, "pi", &made, "", keep), want, "{names:?} {made} {keep}");
        }
    }
}
