//! What breaks on a running node, and how it comes back.

use std::time::Duration;

use weaver_image::boot::machine::Machine;
use weaver_image::booted::{API_NAME, machine, wait_for_unit};

use crate::node::{apply_sample, is_active, report};
use crate::poll::{LIMIT, until};

const OPERATOR: &str = "weaver-operator.service";

fn pid(machine: &Machine, unit: &str) -> anyhow::Result<u32> {
    let reported = machine.run(&format!("systemctl show --value -p MainPID {unit}"))?;
    Ok(reported.trim().parse()?)
}

fn operator_becomes_active(machine: &Machine) {
    wait_for_unit(machine, OPERATOR, LIMIT).unwrap();
}

/// From the laptop, by that name.
fn api_answers(machine: &Machine, name: &str) {
    until(&format!("an answer by {name}"), || Ok(Ok(machine.kubectl(name, &["get", "--raw", "/readyz"])?)));
}

/// The operator works: what is new in the sample's source comes into its copies.
fn copies_follow(machine: &Machine, value: &str) {
    apply_sample(machine);
    let patch = serde_json::json!({"data": {"changed": value}}).to_string();
    machine.kubectl(API_NAME, &["-n", "team-a", "patch", "configmap", "settings", "-p", &patch]).unwrap();
    for namespace in ["foo", "bar"] {
        let copy = ["-n", namespace, "get", "configmap", "settings", "-o", "jsonpath={.data.changed}"];
        until("the copy", || {
            let reported = machine.kubectl(API_NAME, &copy)?;
            Ok(if reported == value { Ok(()) } else { Err(reported) })
        });
    }
}

fn kill(machine: &Machine, unit: &str) -> u32 {
    let before = pid(machine, unit).unwrap();
    assert!(before > 0, "{unit} does not run");
    machine.run(&format!("kill -9 {before}")).unwrap();
    before
}

/// Kills a unit's process and waits for its successor.
fn comes_back(machine: &Machine, unit: &str) -> u32 {
    let before = kill(machine, unit);
    until(&format!("{unit} running again"), || {
        let now = pid(machine, unit)?;
        let back = now > 0 && now != before && is_active(machine, unit)?;
        Ok(if back { Ok(now) } else { Err(format!("pid {now}")) })
    })
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn operator_and_webhook_come_back_after_a_kill() {
    let machine = machine().unwrap();
    comes_back(&machine, OPERATOR);
    copies_follow(&machine, "after the operator was killed");
    comes_back(&machine, "weaver-webhook.service");
    // Asked once, at once: its socket is systemd's, so that a question waits for the next webhook.
    kill(&machine, "weaver-webhook.service");
    let all =
        ["get", "configmapsyncs.v1alpha1.weaver.example.com", "-A", "-o", "jsonpath={.items[*].apiVersion}"];
    let reported = machine.kubectl(API_NAME, &all).unwrap();
    assert_eq!(reported, "weaver.example.com/v1alpha1");
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn a_killed_agent_comes_back_and_leaves_the_operator_alone() {
    let machine = machine().unwrap();
    let operator = pid(&machine, OPERATOR).unwrap();
    // What the next agent writes, and not what is left of this one.
    machine.run("rm /run/weaver/report.json").unwrap();
    comes_back(&machine, "weaver-node-agent.service");
    assert_eq!(pid(&machine, OPERATOR).unwrap(), operator);
    until("the gate open again", || {
        let json = report(&machine)?;
        Ok(if json["gate"] == "open" { Ok(()) } else { Err(json["reason"].to_string()) })
    });
    assert_eq!(pid(&machine, OPERATOR).unwrap(), operator);
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn k3s_comes_back_after_a_kill_and_the_operator_is_there() {
    let machine = machine().unwrap();
    comes_back(&machine, "k3s.service");
    api_answers(&machine, API_NAME);
    operator_becomes_active(&machine);
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn a_name_configured_and_not_served_is_reported_and_its_remedy_works() {
    let mut machine = machine().unwrap();
    let operator = pid(&machine, OPERATOR).unwrap();
    let name = "late.weaver.test";
    let drop_in = "/etc/rancher/k3s/config.yaml.d/95-late.yaml";
    machine.run(&format!("printf 'tls-san+:\\n- {name}\\n' > {drop_in}")).unwrap();
    let finding = until("the finding", || {
        let json = report(&machine)?;
        let findings = json["findings"].as_array().cloned().unwrap_or_default();
        let found =
            findings.into_iter().find(|f| f["severity"] == "fail" && f["message"].to_string().contains(name));
        Ok(found.ok_or_else(|| json["reason"].to_string()))
    });
    let code = finding["code"].as_str().unwrap().to_owned();
    until("the finding on the card", || {
        let text = machine.read_fat("NODE-STATUS.txt")?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(if text.contains(&code) && text.contains(name) { Ok(()) } else { Err(text) })
    });
    until("the finding above the login prompt", || {
        let shown = machine.console();
        Ok(if shown.contains(&code) && shown.contains(name) { Ok(()) } else { Err(shown) })
    });
    assert_eq!(pid(&machine, OPERATOR).unwrap(), operator, "a bad name never stops the operator");

    // As after a boot with that name: nothing has opened the gate.
    let shut = "systemctl stop weaver-operator.service && rm /run/weaver/operator.kubeconfig /run/weaver/operator.token \
                && systemctl restart weaver-node-agent.service";
    machine.run(shut).unwrap();
    until("the gate shut", || {
        let json = report(&machine)?;
        let is_shut = json["gate"] == "shut" && json["reason"].to_string().contains(name);
        Ok(if is_shut { Ok(()) } else { Err(json["reason"].to_string()) })
    });
    machine.run("systemctl start weaver-operator.service").unwrap();
    assert!(!is_active(&machine, OPERATOR).unwrap(), "started before its names are proven");

    // What is printed is what is typed.
    let commands: Vec<_> =
        finding["remedy"]["commands"].as_array().unwrap().iter().filter_map(|c| c.as_str()).collect();
    assert_eq!(commands, ["sudo weaver-node-agent repair names"], "{finding}");
    let said = machine.run_within(commands[0], Duration::from_mins(10)).unwrap();
    assert!(said.contains("k3s was restarted"), "{said}");
    api_answers(&machine, name);
    until("the finding gone", || {
        let json = report(&machine)?;
        let text = json["findings"].to_string();
        let bad = text.contains("\"fail\"");
        Ok(if bad { Err(text) } else { Ok(()) })
    });
    operator_becomes_active(&machine);
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn an_error_of_the_card_in_the_kernels_log_is_on_the_card_and_stops_nothing() {
    let mut machine = machine().unwrap();
    let operator = pid(&machine, OPERATOR).unwrap();
    let said = "mmc0: Timeout waiting for hardware interrupt.";
    machine.run(&format!("echo '<3>{said}' > /dev/kmsg")).unwrap();
    let finding = until("the finding", || {
        let json = report(&machine)?;
        let findings = json["findings"].as_array().cloned().unwrap_or_default();
        let found = findings.into_iter().find(|f| f["code"] == "H-07" && f.to_string().contains(said));
        Ok(found.ok_or_else(|| json["findings"].to_string()))
    });
    assert_eq!(finding["severity"], "warn", "{finding}");
    until("the finding on the card", || {
        let text = machine.read_fat("NODE-STATUS.txt")?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(if text.contains("H-07") && text.contains(said) { Ok(()) } else { Err(text) })
    });
    // A new agent reads the same buffer.
    comes_back(&machine, "weaver-node-agent.service");
    until("the finding again", || {
        let json = report(&machine)?;
        let is_there = json["gate"] == "open" && json["findings"].to_string().contains(said);
        Ok(if is_there { Ok(()) } else { Err(json.to_string()) })
    });
    assert_eq!(pid(&machine, OPERATOR).unwrap(), operator, "what has happened stops nothing");
    assert!(is_active(&machine, "k3s.service").unwrap());
}
