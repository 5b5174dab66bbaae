//! A node that joins a server of k3s: is that the server of its token, and would k3s be accepted?
//!
//! Pure: judged by what the server showed. Nothing here stops k3s, which retries until it is accepted. Only who has the
//! token can prove itself, so what a server says is believed as far as k3s would believe it.

use crate::{
    finding::{Code, Command, Finding, K3S_STATUS, Place, Remedy},
    reach::{self, Clocks},
    san::{ServingName, nearest},
    serving::{HandshakeOutcome, Observation, Silence},
};

/// What the server showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinProbe {
    Silence(String),
    /// Its machine accepts connections, as that of a busy server does, and no answer came in time.
    Late(String),
    /// Something answers that is no server of k3s: what it said.
    NoCa(String),
    /// A CA of which the token has no hash.
    OtherCa,
    /// The token's CA, or any where the token has no hash, as k3s has it.
    Ca {
        /// A handshake under the server's name, verified by that CA.
        handshake: Observation,
        /// The time by both, where the server said it.
        clocks: Option<Clocks>,
    },
}

/// How the node that joins asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joining<'a> {
    /// What this node is called.
    pub own: Option<&'a str>,
    /// `disable-apiserver-lb`: k3s asks the server under the name in `server`. Else it asks its own load balancer at
    /// 127.0.0.1, for which each server has a certificate.
    pub directly: bool,
}

/// Judges what the server at `url`, whose host is `name`, showed to the node that joins.
pub fn judge(url: &str, name: &ServingName, joining: Joining<'_>, shown: &JoinProbe) -> Vec<Finding> {
    let place = || Place::file(url);
    let (handshake, clocks) = match shown {
        JoinProbe::Silence(why) => return vec![silent(url, why)],
        JoinProbe::Late(why) => return vec![late(url, why)],
        JoinProbe::NoCa(why) => {
            let message = format!("the server at {url} is not a k3s server");
            return vec![Finding::new(Code::JoinOtherServer, message).saw(place(), why)];
        }
        JoinProbe::OtherCa => {
            let message =
                format!("the server at {url} is not the one that the token is for: its CA has another hash");
            return vec![Finding::new(Code::JoinOtherServer, message)];
        }
        JoinProbe::Ca { handshake, clocks } => (handshake, *clocks),
    };
    let mut findings: Vec<_> = clocks.and_then(reach::clocks).into_iter().collect();
    match &handshake.outcome {
        HandshakeOutcome::NotServed if joining.directly => {
            findings.push(not_served(url, name, &handshake.served));
        }
        HandshakeOutcome::Proven | HandshakeOutcome::NotServed => {
            findings.extend(joining.own.and_then(|own| taken(url, own, name, &handshake.served)));
        }
        HandshakeOutcome::Dates(why) => {
            let message = format!("the certificate at {url} is not valid at this node's time: {why}");
            let remedy = Remedy::new(
                "compare the clocks of both machines; if both are right, restart k3s on the server, which \
                 renews expired certificates",
            );
            let finding = Finding::new(Code::CertificateDates, message).saw(place(), why);
            findings.push(finding.remedy(remedy.command("timedatectl")));
        }
        HandshakeOutcome::Untrusted(why) => {
            let message =
                format!("the server at {url} has a certificate that is not signed by the CA that it sends");
            findings.push(Finding::new(Code::JoinOtherServer, message).saw(place(), why));
        }
        // It has sent its CA a moment ago.
        HandshakeOutcome::Unreachable(Silence::Late(why)) => findings.push(late(url, why)),
        HandshakeOutcome::Unreachable(silence) => findings.push(silent(url, silence.why())),
    }
    findings
}

fn silent(url: &str, why: &str) -> Finding {
    let message = format!("the server at {url} does not respond; k3s keeps trying");
    Finding::new(Code::JoinServerSilent, message).saw(Place::file(url), why)
}

fn late(url: &str, why: &str) -> Finding {
    let message = format!(
        "the server at {url} accepts connections and does not answer in time: it may only be busy; k3s keeps trying"
    );
    let remedy = Remedy::new(
        "wait and check again; if it does not improve, check on the server that k3s runs and what keeps it busy",
    );
    let finding = Finding::new(Code::JoinServerSilent, message).saw(Place::file(url), why);
    finding.remedy(remedy.command("uptime").command(K3S_STATUS))
}

fn not_served(url: &str, name: &ServingName, served: &[String]) -> Finding {
    let message = format!(
        "the server at {url} is the right one and has no certificate for {name}, only for: {}",
        served.join(", ")
    );
    let near = nearest(&name.to_string(), served);
    let other = near.map_or_else(String::new, |near| format!("; or write `{near}` into `server` here"));
    let remedy = Remedy::new(format!(
        "on the server, write \"{name}\" into `names` below [api] of its weaver.toml and reboot it{other}"
    ))
    .command("sudo nano /boot/firmware/weaver.toml");
    Finding::new(Code::JoinNameNotServed, message).remedy(remedy)
}

/// k3s puts its node's name into its certificate. Where the server is asked for under that very name, it is its own.
fn taken(url: &str, own: &str, name: &ServingName, served: &[String]) -> Option<Finding> {
    let is_theirs = served.iter().any(|served| served == own) && name.to_string() != own;
    is_theirs.then(|| {
        let message =
            format!("this node is called {own}, and the server at {url} has a certificate for {own}");
        Finding::new(Code::JoinNameTaken, message)
    })
}

/// What was found of the host of a node that joins, with the commands of such a node, where k3s' unit is another one.
pub fn on_this_node(mut finding: Finding) -> Finding {
    for command in finding.remedy.iter_mut().flat_map(|remedy| &mut remedy.commands) {
        if let Command::Unit { agent, .. } = *command {
            *command = agent.into();
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{K3S_LOG, K3S_LOG_END, RESTART_K3S, Severity};

    const URL: &str = "https://raspi.lan:6443";

    fn judged(own: &str, shown: &JoinProbe) -> Vec<Finding> {
        let joining = Joining { own: Some(own), directly: true };
        judge(URL, &"raspi.lan".parse().unwrap(), joining, shown)
    }

    fn ca(outcome: HandshakeOutcome, served: &[&str], ahead: i64) -> JoinProbe {
        let served = served.iter().map(|name| (*name).to_owned()).collect();
        let clocks = Some(Clocks { here: 1_800_000_000, there: 1_800_000_000 + ahead });
        JoinProbe::Ca { handshake: Observation { outcome, served }, clocks }
    }

    #[test]
    fn what_the_server_shows_is_judged() {
        let text = |text: &str| text.to_owned();
        for (shown, want) in [
            (JoinProbe::Silence(text("refused")), vec![Code::JoinServerSilent]),
            (JoinProbe::Late(text("no answer within 30 s")), vec![Code::JoinServerSilent]),
            (JoinProbe::NoCa(text("404 Not Found")), vec![Code::JoinOtherServer]),
            (JoinProbe::OtherCa, vec![Code::JoinOtherServer]),
            (ca(HandshakeOutcome::Proven, &["raspi", "raspi.lan"], 0), vec![]),
            (ca(HandshakeOutcome::Proven, &["raspi", "raspi.lan"], 3600), vec![Code::ClocksDiffer]),
            (ca(HandshakeOutcome::Proven, &["worker", "raspi.lan"], 0), vec![Code::JoinNameTaken]),
            (ca(HandshakeOutcome::NotServed, &["raspi"], 0), vec![Code::JoinNameNotServed]),
            (
                ca(HandshakeOutcome::Dates(text("it is not valid yet")), &[], 3600),
                vec![Code::ClocksDiffer, Code::CertificateDates],
            ),
            (
                ca(HandshakeOutcome::Untrusted(text("signed by another CA")), &[], 0),
                vec![Code::JoinOtherServer],
            ),
            (
                ca(HandshakeOutcome::Unreachable(Silence::Unanswered(text("reset"))), &[], 0),
                vec![Code::JoinServerSilent],
            ),
        ] {
            let found = judged("worker", &shown);
            assert_eq!(found.iter().map(|found| found.code).collect::<Vec<_>>(), want, "{shown:?}");
            assert!(
                found.iter().all(|found| found.remedy.is_some() && found.message.len() > 20),
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_is_to_be_typed_names_the_unit_that_runs_here() {
        for (command, here) in [
            (RESTART_K3S, "sudo systemctl restart k3s-agent"),
            (K3S_LOG_END, "sudo journalctl -b -u k3s-agent | tail -n 50"),
            (K3S_LOG, "journalctl -u k3s-agent -n 50"),
            ("sudo k3s kubectl get nodes".into(), "sudo k3s kubectl get nodes"),
            ("sudo systemctl daemon-reload".into(), "sudo systemctl daemon-reload"),
        ] {
            let finding = Finding::new(Code::RebootNeeded, "m").remedy(Remedy::new("r").command(command));
            assert_eq!(on_this_node(finding).remedy.unwrap().commands, [here]);
        }
        let commands = |code| on_this_node(Finding::new(code, "m")).remedy.map(|remedy| remedy.commands);
        let typed = commands(Code::SettingMisspelled).unwrap();
        assert!(typed.last().unwrap().ends_with("restart k3s-agent"), "{typed:?}");
        assert_eq!(commands(Code::MemoryCgroupOk), None);
    }

    #[test]
    fn a_server_that_is_off_is_no_fault_of_this_node() {
        let found = judged("worker", &JoinProbe::Silence("no answer within 5 s".into()));
        assert_eq!(found[0].severity(), Severity::Warn);
        assert!(found[0].evidence[0].to_string().contains("no answer within 5 s"), "{found:?}");
    }

    #[test]
    fn a_server_that_accepts_and_does_not_answer_is_to_be_waited_for() {
        let why = || "no answer within 30 s".to_owned();
        for shown in [
            JoinProbe::Late(why()),
            ca(HandshakeOutcome::Unreachable(Silence::Late(why())), &["raspi.lan"], 0),
        ] {
            let found = judged("worker", &shown);
            assert!(found[0].message.contains("may only be busy"), "{found:?}");
            assert!(found[0].remedy.as_ref().unwrap().explain.starts_with("wait"), "{found:?}");
        }
        let refused = judged("worker", &JoinProbe::Silence("refused".into()));
        assert!(!refused[0].message.contains("busy"), "{refused:?}");
    }

    #[test]
    fn a_name_that_is_not_served_names_one_that_is() {
        let found = judged("worker", &ca(HandshakeOutcome::NotServed, &["raspi.local", "kubernetes"], 0));
        assert!(found[0].message.ends_with("only for: raspi.local, kubernetes"), "{found:?}");
        let remedy = &found[0].remedy.as_ref().unwrap().explain;
        assert!(remedy.contains("\"raspi.lan\"") && remedy.contains("write `raspi.local`"), "{remedy}");
    }

    #[test]
    fn a_node_with_its_own_load_balancer_joins_under_any_name_and_the_name_of_its_node_may_be_taken() {
        let behind = |served| {
            let joining = Joining { own: Some("worker"), directly: false };
            let shown = ca(HandshakeOutcome::NotServed, served, 0);
            let found = judge(URL, &"raspi.lan".parse().unwrap(), joining, &shown);
            found.into_iter().map(|found| found.code).collect::<Vec<_>>()
        };
        assert_eq!(behind(&["raspi", "127.0.0.1"]), []);
        assert_eq!(behind(&["worker", "127.0.0.1"]), [Code::JoinNameTaken]);
    }
}
