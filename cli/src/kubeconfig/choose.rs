//! Chooses the card that `weaver kubeconfig fetch` logs in to if none is named: lists the cards that announce
//! themselves and asks on the terminal.
//!
//! An announcement proves nothing. ssh verifies the card's host key, the export verifies its name, and a CA that
//! differs from the announced one is refused.

use std::io::{self, IsTerminal as _};

use anyhow::{Context as _, bail};
use weaver_diagnostics::san::ServingName;
use weaver_host::table::table;

use crate::find::Search;
use crate::find::card::{self, FoundCard};
use crate::stdout::{note, print};

/// Where to log in, and what was announced there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    /// The destination for ssh.
    pub from: String,
    /// The name for the API server; `None` where that is the address.
    pub name: Option<ServingName>,
    /// SHA-256 of the CA file.
    pub ca: Option<String>,
}

/// The one that the user chooses; none where there is no terminal to choose on, and the list is printed.
pub async fn target(search: &Search, user: &str) -> anyhow::Result<Option<SshTarget>> {
    let mut found = search.cards().await?;
    // A node that joins a server has no kubeconfig to export.
    found.cards.retain(|card| !card.announced.joins);
    let cards = &found.cards;
    if cards.is_empty() {
        return Err(search.none());
    }
    let targets: Vec<_> = cards.iter().map(|card| of(card, user)).collect();
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        let commands: String = targets.iter().map(|target| command(target) + "\n").collect();
        print(&format!("{}\n{commands}", table(&card::rows(cards), "  ")))?;
        found.tell();
        note!("error: no terminal to choose on, and nothing was changed: run one of these commands");
        return Ok(None);
    }
    print(&table(&numbered(cards), "  "))?;
    found.tell();
    print(&format!("Fetch from which, 1 to {}? ", targets.len()))?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("reading your answer")?;
    match chosen(&answer, targets) {
        Some(target) => Ok(Some(target)),
        None => bail!("nothing was changed: that is not one of the numbers"),
    }
}

fn of(card: &FoundCard, user: &str) -> SshTarget {
    let name: Option<ServingName> = card.announced.served.as_deref().and_then(|name| name.parse().ok());
    // kubectl finds no name of mDNS; the address is always in the certificate.
    let name = name.filter(|name| !name.is_mdns() && !matches!(name, ServingName::Wildcard(_)));
    SshTarget { from: format!("{user}@{}", card.address()), name, ca: card.announced.ca.clone() }
}

fn command(target: &SshTarget) -> String {
    let name = target.name.iter().map(|name| format!(" --name {name}"));
    format!("weaver kubeconfig fetch {}{}", target.from, name.collect::<String>())
}

fn numbered(cards: &[FoundCard]) -> Vec<Vec<String>> {
    let number = |at: usize| if at == 0 { String::new() } else { at.to_string() };
    let rows = card::rows(cards).into_iter().enumerate();
    rows.map(|(at, row)| std::iter::once(number(at)).chain(row).collect()).collect()
}

fn chosen(answer: &str, targets: Vec<SshTarget>) -> Option<SshTarget> {
    let number: usize = answer.trim().parse().ok()?;
    targets.into_iter().nth(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::card::{FoundService, ServedAddress};
    use std::net::SocketAddr;

    fn card(ip: &str, served: &str) -> FoundCard {
        let records = [("txtvers", "1".to_owned()), ("served", served.to_owned()), ("ca", "0a".repeat(32))];
        let address = ServedAddress {
            at: SocketAddr::new(ip.parse().unwrap(), 0),
            interface: Some(("eth0".into(), 2)),
            is_own: false,
        };
        let records = records.into_iter().map(|(key, value)| (key.to_owned(), value.into_bytes())).collect();
        FoundCard::read(FoundService { addresses: vec![address], records, ..FoundService::default() })
            .unwrap()
    }

    #[test]
    fn what_is_typed_for_a_card() {
        for (ip, served, want) in [
            ("10.0.0.2", "raspi.lan", "pi@10.0.0.2 --name raspi.lan"),
            ("10.0.0.2", "raspi.local", "pi@10.0.0.2"),
            ("10.0.0.2", "", "pi@10.0.0.2"),
            ("10.0.0.2", "$(reboot)", "pi@10.0.0.2"),
            ("10.0.0.2", "--force", "pi@10.0.0.2"),
            ("fd00::2", "192.168.1.20", "pi@fd00::2 --name 192.168.1.20"),
        ] {
            let target = of(&card(ip, served), "pi");
            assert_eq!(command(&target), format!("weaver kubeconfig fetch {want}"));
            assert_eq!(target.ca.as_deref(), Some(&*"0a".repeat(32)));
        }
    }

    #[test]
    fn only_a_number_of_the_list_chooses() {
        let targets: Vec<_> = ["10.0.0.2", "10.0.0.3"].map(|ip| of(&card(ip, ""), "pi")).to_vec();
        for (answer, want) in
            [("1\n", Some("pi@10.0.0.2")), (" 2 \r\n", Some("pi@10.0.0.3")), ("0", None), ("3", None)]
        {
            assert_eq!(
                chosen(answer, targets.clone()).map(|target| target.from).as_deref(),
                want,
                "{answer:?}"
            );
        }
        for answer in ["", "\n", "yes", "-1", "1 2", "99999999999999999999"] {
            assert_eq!(chosen(answer, targets.clone()), None, "{answer:?}");
        }
        let rows = numbered(&[card("10.0.0.2", "")]);
        assert_eq!((rows[0][0].as_str(), rows[0][1].as_str(), rows[1][0].as_str()), ("", "NAME", "1"));
    }
}
