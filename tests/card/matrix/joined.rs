//! Two cards of one image: one is a server, the other joins it. The testbed has no agents: with it all before
//! the join is seen, and the join itself where the image has a real k3s (`K3S=FILE make image-matrix`). Each
//! guest has a network of its own; the second connects to the first by the port that this machine forwards, under
//! an address for which the first has no certificate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::card::{Card, Edits};
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::boot::qemu::{EmulatedHardware, GuestClock};
use weaver_image::booted;

use super::fault::codes;
use crate::node::{is_active, report};
use crate::poll::{until, until_within};
use crate::root::image;

const BOOT: Duration = Duration::from_mins(15);
/// The machine that runs the guests, as a guest sees it.
const HOST: &str = "10.0.2.2";

const DIRECTLY: &str = "/etc/rancher/k3s/config.yaml.d/92-directly.yaml";

/// What the worker's k3s has complained of last.
const COMPLAINTS: &str = "journalctl -b -u k3s-agent.service --no-pager -o cat \
                          | grep -E '^E[0-9]{4} |level=(warning|error|fatal)' | tail -n 5";

/// What k3s asks of those that join. The testbed has none, and no one joins it.
fn token_of(server: &Machine) -> String {
    let hash = "$(sha256sum < /var/lib/rancher/k3s/server/tls/server-ca.crt | cut -c 1-64)";
    let none = format!("echo K10{hash}::server:hunter2-of-the-server");
    let token = server.run(&format!("cat /var/lib/rancher/k3s/server/token || {none}")).unwrap();
    token.trim().to_owned()
}

/// A card that joins the server behind this port with this token.
fn joining(port: u16, token: &str) -> Card {
    let weaver_toml = format!(
        "hostname = \"worker\"\n\n[ssh]\nkeys = []\n\n[time]\nservers = [\"{HOST}\"]\nwait_seconds = 0\n\n\
         [k3s]\nrole = \"agent\"\nserver = \"https://{HOST}:{port}\"\ntoken = \"{token}\"\n"
    );
    let edits = Edits { weaver_toml: Some(weaver_toml), ..Edits::default() };
    Card::new(&image(), 8 << 30, &edits).unwrap()
}

/// Codes about joining; each of them that the page on the card has, too.
fn about_joining(worker: &mut Machine) -> anyhow::Result<Result<BTreeSet<String>, String>> {
    let mut said = codes(&report(worker)?);
    said.retain(|code| code.starts_with('J'));
    let page = worker.read_fat("NODE-STATUS.txt")?.unwrap_or_default();
    let page = String::from_utf8_lossy(&page).into_owned();
    let on_page: Vec<_> = (1..=4).map(|n| format!("J-0{n}")).filter(|code| page.contains(code)).collect();
    let same = said.iter().eq(&on_page);
    Ok(if same { Ok(said) } else { Err(format!("{said:?} in the report, {on_page:?} on the card")) })
}

fn wait_for(worker: &mut Machine, wanted: &[&str]) {
    until(&format!("{wanted:?} from the card that joins"), || {
        Ok(about_joining(worker)?
            .and_then(|said| if said.iter().eq(wanted) { Ok(()) } else { Err(format!("{said:?}")) }))
    });
}

fn both_are_ready(server: &Machine, worker: &Machine) {
    for asked in ["wait --for=condition=Ready --timeout=30s node/raspi node/worker", "get nodereport/worker"]
    {
        until_within(BOOT, &format!("an answer to {asked}"), || {
            let found = server.attempt(&format!("k3s kubectl {asked}"), BOOT)?;
            let said = || worker.run(COMPLAINTS).unwrap_or_default();
            Ok(if found.code == 0 { Ok(()) } else { Err(found.stderr + &said()) })
        });
    }
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_card_joins_under_an_address_for_which_its_server_has_no_certificate() {
    let mut server = booted::machine().unwrap();
    let token = token_of(&server);
    let (_, secret) = token.rsplit_once(':').unwrap();
    let card = Arc::new(joining(server.ports().api, &token));
    // No time server answers: the clocks of both machines are set to agree.
    let clock = GuestClock::At(server.run("date -u +%Y-%m-%dT%H:%M:%S").unwrap().trim().to_owned());
    let setup =
        Setup { hardware: EmulatedHardware { clock, ..EmulatedHardware::default() }, ..Setup::default() };
    let mut worker = Machine::start(&card, &setup).unwrap();
    worker.wait_for_ssh(BOOT).unwrap();

    until("the agent's own k3s", || {
        let started = "systemctl show --value -p InvocationID k3s-agent.service";
        Ok(match worker.run(started)?.trim() {
            "" => Err("k3s-agent.service was not started".to_owned()),
            _ => Ok(()),
        })
    });
    for unit in ["k3s.service", "weaver-operator.service", "weaver-webhook.service", "weaver-webhook.socket"]
    {
        assert!(!is_active(&worker, unit).unwrap(), "{unit} runs on an agent");
    }
    assert_eq!(worker.run("systemctl show --value -p ConditionResult k3s.service").unwrap().trim(), "no");
    let config = worker.run("cat /etc/rancher/k3s/config.yaml.d/90-weaver.yaml").unwrap();
    assert!(config.contains(HOST) && !config.contains("tls-san"), "{config}");
    let weaver_toml = worker.read_fat("weaver.toml").unwrap().unwrap();
    assert!(!String::from_utf8(weaver_toml).unwrap().contains(secret), "the token stayed on the card");

    // Without its load balancer k3s would ask under that address.
    worker.run(&format!("echo 'disable-apiserver-lb: true' > {DIRECTLY}")).unwrap();
    wait_for(&mut worker, &["J-03"]);
    let said = report(&worker).unwrap();
    assert!(said["gate"] == "shut" && said["reason"].as_str().unwrap().contains("J-03"), "{said:#}");
    assert!(!said.to_string().contains(secret));
    worker.run(&format!("rm {DIRECTLY}")).unwrap();

    wait_for(&mut worker, &[]);
    let said = report(&worker).unwrap();
    assert!(said["reason"].as_str().unwrap().contains("joins a server"), "{said:#}");
    assert!(!said.to_string().contains(secret));

    if !server.run("k3s --version").unwrap().contains("testbed") {
        both_are_ready(&server, &worker);
    }

    server.power_off(BOOT).unwrap();
    wait_for(&mut worker, &["J-01"]);
}
