//! A CA from the future. k3s makes it at its first start, by the clock of that moment: on a board whose clock
//! was ahead, each certificate begins when the CA does, and no restart of k3s helps.

use crate::{
    finding::{Code, Finding, Place, Remedy, START_K3S, STOP_K3S},
    shell::quoted,
};

/// A CA that begins later than now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FutureCa {
    pub file: String,
    /// When it begins, in UTC, such as `2030-01-01T00:00:00Z`.
    pub begins: String,
    /// The directory with all that k3s has as a server.
    pub server: String,
    /// Whether a time server has set the clock since the start. Until then the clock is the problem.
    pub clock_is_set: bool,
}

impl FutureCa {
    /// For when no certificate is served to check: k3s does not even start with such a CA.
    pub fn finding(&self) -> Finding {
        let message = "the CA of k3s is not valid yet, and k3s does not start with it";
        self.explain(Finding::new(Code::CertificateDates, message))
    }

    /// As the cause of what is wrong with the certificate that was seen.
    pub(crate) fn explain(&self, finding: Finding) -> Finding {
        let remedy = if self.clock_is_set { self.begin_again() } else { wait_for_the_clock() };
        finding.saw(Place::file(&self.file), format!("the CA is valid from {}", self.begins)).remedy(remedy)
    }

    fn begin_again(&self) -> Remedy {
        let Self { begins, server, .. } = self;
        // With a name of its own: into a directory that is there already it would be moved.
        let aside = format!("{server}.{}", begins.replace(['-', ':'], ""));
        Remedy::new(format!(
            "the clock is right, so k3s made its CA while the clock was ahead: wait until {begins}, or \
             reset k3s to an empty cluster with a new CA; its old data is kept, and each kubeconfig must \
             be fetched again"
        ))
        .command("timedatectl")
        .command(STOP_K3S)
        .command(format!("sudo mv -T {} {}", quoted(server), quoted(&aside)))
        .command(START_K3S)
    }
}

fn wait_for_the_clock() -> Remedy {
    Remedy::new(
        "the clock has not been set since boot: connect the host to a network with a time server and wait, then check again",
    )
    .command("timedatectl")
    .command("timedatectl timesync-status")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";

    fn ca(clock_is_set: bool) -> FutureCa {
        FutureCa {
            file: CA.to_owned(),
            begins: "2030-01-01T00:00:00Z".to_owned(),
            server: "/var/lib/rancher/k3s/server".to_owned(),
            clock_is_set,
        }
    }

    #[test]
    fn where_the_ca_is_from_the_future_a_restart_is_no_remedy() {
        let found = ca(true).explain(Finding::new(Code::CertificateDates, "m"));
        assert_eq!(found.evidence[0].to_string(), format!("{CA}: the CA is valid from 2030-01-01T00:00:00Z"));
        let remedy = found.remedy.unwrap();
        assert!(remedy.explain.contains("wait until 2030-01-01T00:00:00Z"), "{}", remedy.explain);
        let aside = "sudo mv -T /var/lib/rancher/k3s/server /var/lib/rancher/k3s/server.20300101T000000Z";
        assert_eq!(remedy.commands[1..], ["sudo systemctl stop k3s", aside, "sudo systemctl start k3s"]);
        assert_eq!(ca(true).finding().remedy.unwrap().commands, remedy.commands);
    }

    /// The clock is behind, most likely, and what k3s has is of use.
    #[test]
    fn until_the_clock_is_set_nothing_is_moved_away() {
        let remedy = ca(false).finding().remedy.unwrap();
        assert!(remedy.commands.iter().all(|command| command.starts_with("timedatectl")), "{remedy:?}");
    }
}
