//! How worn a card or disk is, as tools print it.

use super::details::{Details, after};

/// Tenths of its life that are used: `0x0a` is the last, `0x0b` beyond.
const LAST_TENTH: u32 = 0x0a;

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?.split_whitespace().next()?, 16).ok()
}

pub(super) fn life_time(line: &str) -> Option<Details> {
    let used = hex(after(line, "]: ", &['\n'])?).filter(|used| *used >= LAST_TENTH)?;
    Some(Details::message(if used > LAST_TENTH {
        "the card is past its rated lifetime"
    } else {
        "the card has used more than 90 % of its rated lifetime"
    }))
}

pub(super) fn end_of_life(line: &str) -> Option<Details> {
    // 1 is normal; 0 is not defined.
    match hex(after(line, "]: ", &['\n'])?)? {
        2 => Some(Details::message("the card has used 80 % of its spare blocks")),
        3 => Some(Details::message("the card has used 90 % of its spare blocks")),
        _ => None,
    }
}

/// As smartctl prints it of disks that are not SATA.
pub(super) fn percentage(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    let used = after(&lower, "percentage used:", &['%'])?.trim().parse::<u32>().ok()?;
    (used >= 100).then(|| Details::message(format!("the disk has used {used} % of its rated lifetime")))
}

pub(super) fn smart(_: &str) -> Details {
    Details::message("the disk reports that it is failing (SMART)")
}
