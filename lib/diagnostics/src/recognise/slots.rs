//! What earlier lines say of the slots of the MMC, without which a later one cannot be judged: one slot has
//! the card, one the Wi-Fi.

use std::collections::{BTreeMap, BTreeSet};

use super::disks::body;

/// Lines that tell of a slot have one of these.
pub(super) const NEEDLES: [&str; 2] = [" sdio card at ", ": mmc"];

/// Devices of a kind that are remembered. A Pi has a handful.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Slots without a card: the Wi-Fi of a Pi is in one, and its time-outs are not those of a card.
    sdio: BTreeSet<String>,
    /// The card in each slot.
    cards: BTreeMap<String, String>,
}

impl Slots {
    /// Takes in what a line of the kernel says of a slot.
    pub(super) fn learn(&mut self, line: &str) {
        let Some((subject, rest)) = body(line).split_once(": ") else { return };
        if subject.starts_with("mmc") && rest.contains(" SDIO card at ") {
            if self.sdio.len() < MOST {
                self.sdio.insert(subject.to_owned());
            }
        } else if subject.starts_with("mmcblk") {
            // `mmcblk0: mmc0:59b4 SD16G 14.9 GiB`
            if let Some((slot, _)) = rest.split_once(':').filter(|(slot, _)| slot.starts_with("mmc"))
                && (self.cards.len() < MOST || self.cards.contains_key(slot))
            {
                self.cards.insert(slot.to_owned(), subject.to_owned());
            }
        }
    }

    /// Whether the card may be in this slot.
    pub(crate) fn may_be_card(&self, slot: &str) -> bool {
        !self.sdio.contains(slot)
    }

    /// Whether a card is in this slot. Without the lines of the start it is taken to be in the first one.
    pub(super) fn has_card(&self, slot: &str) -> bool {
        self.may_be_card(slot) && (self.knows_card(slot) || slot == "mmc0")
    }

    /// Whether the kernel found a card in this slot, and nothing has to be assumed.
    pub(crate) fn knows_card(&self, slot: &str) -> bool {
        self.cards.contains_key(slot)
    }

    /// The card in a slot; what is no slot is its own name.
    pub(crate) fn card<'a>(&'a self, slot: &'a str) -> &'a str {
        self.cards.get(slot).map_or(slot, String::as_str)
    }
}
