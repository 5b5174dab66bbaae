//! What earlier records say of the slots of the MMC, without which a later one cannot be judged: one slot has
//! the card, one the Wi-Fi.

use std::collections::{BTreeMap, BTreeSet};

/// Devices of a kind that are remembered. A Pi has a handful.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Slots without a card: the Wi-Fi of a Pi is in one, and its time-outs are not those of a card.
    sdio: BTreeSet<String>,
    /// The card in each slot.
    cards: BTreeMap<String, String>,
}

impl Slots {
    /// Takes in what a record says of a slot.
    pub(super) fn learn(&mut self, text: &str) {
        let Some((subject, rest)) = text.split_once(": ") else { return };
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
    pub(super) fn may_be_card(&self, slot: &str) -> bool {
        !self.sdio.contains(slot)
    }

    /// The card in a slot; what is no slot is its own name.
    pub(super) fn card<'a>(&'a self, slot: &'a str) -> &'a str {
        self.cards.get(slot).map_or(slot, String::as_str)
    }
}
