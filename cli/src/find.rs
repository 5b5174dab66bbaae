//! `weaver find`: the cards of this network, which announce themselves by mDNS, and their state, which their pages
//! show.
//!
//! Guarantees: nothing is sent but the mDNS query and, to a card that announces a page, one GET without any credential;
//! answers are bounded in number, size and time. Anyone in the network can announce anything, so nothing of it is
//! trusted: `weaver kubeconfig fetch` proves what it gets, and only compares it with what was announced.

mod browse;
pub mod card;
mod state;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use weaver_diagnostics::announcement::SERVICE;
use weaver_diagnostics::exit_code::KNOWN_BAD;
use weaver_host::table::table;

use crate::status::StatusFormat;
use crate::stdout::{ErrorLines, document, failed, json_text, note, print};
use card::FoundCard;

/// Cards that are shown.
const MOST: usize = 100;

#[derive(Args)]
pub struct Find {
    #[command(flatten)]
    search: Search,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: StatusFormat,
}

/// How to look for cards.
#[derive(Args)]
pub struct Search {
    /// How long to wait for cards to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// UDP port of mDNS, for tests
    #[arg(long, env = "WEAVER_MDNS_PORT", value_name = "PORT", default_value_t = 5353, hide = true)]
    mdns_port: u16,
}

pub struct FoundCards {
    /// Sorted by name.
    pub cards: Vec<FoundCard>,
    /// Whether more than [`MOST`] did.
    is_cut: bool,
}

impl Search {
    /// Waits for the whole time: the number of cards that will still answer is not known.
    pub async fn cards(&self) -> anyhow::Result<FoundCards> {
        let time = Duration::from_secs(self.timeout);
        let heard = browse::services(self.mdns_port, time, MOST + 1).await?;
        let is_cut = heard.len() > MOST;
        let mut cards: Vec<_> = heard.into_iter().take(MOST).filter_map(FoundCard::read).collect();
        state::ask(&mut cards).await;
        cards.sort_by(|a, b| (&a.name, &a.addresses).cmp(&(&b.name, &b.addresses)));
        Ok(FoundCards { cards, is_cut })
    }

    /// What to check where none answered.
    pub fn none(&self) -> anyhow::Error {
        let lines = [
            &*format!("no card answered within {} s ({SERVICE} by mDNS); check that", self.timeout),
            "the card is on, and in the same network: mDNS does not pass a router",
            "the access point passes multicast: guest networks and `client isolation` do not",
            "the firewall of this machine lets UDP port 5353 in, and no program keeps that port for itself",
            "this is not WSL, a container or a VPN, which have a network of their own",
            "the card announces itself: not with `announce = false`, and only with avahi-daemon; `weaver docs find-a-card`",
            "or use its address, which the router lists: weaver kubeconfig fetch weaver-admin@ADDRESS",
        ];
        ErrorLines(lines.map(str::to_owned).to_vec()).into()
    }
}

impl FoundCards {
    /// Prints notes on the list.
    pub fn tell(&self) {
        for clash in card::clashes(&self.cards) {
            note!("note: {clash}");
        }
        if self.is_cut {
            note!(
                "note: more than {MOST} announcements: the others are left out; someone may be forging them"
            );
        }
    }
}

pub async fn run(options: &Find) -> anyhow::Result<ExitCode> {
    let found = options.search.cards().await?;
    match options.output {
        StatusFormat::Json => {
            document(&json_text(&card::json(&found.cards), "the cards")?)?;
        }
        StatusFormat::Table if found.cards.is_empty() => {}
        StatusFormat::Table => {
            print(&table(&card::rows(&found.cards), "  "))?;
        }
    }
    if found.cards.is_empty() {
        failed("error", &options.search.none());
        return Ok(ExitCode::FAILURE);
    }
    found.tell();
    let clash = !card::clashes(&found.cards).is_empty();
    Ok(if clash { KNOWN_BAD.into() } else { ExitCode::SUCCESS })
}
