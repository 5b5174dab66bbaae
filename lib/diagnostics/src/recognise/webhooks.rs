//! What the API server says of webhooks: ours, and those of others.

use super::details::{Details, after, has_any, is_name, silent_group};

/// The group of our kinds.
const OURS: &str = "weaver.example.com/";

/// Our admission policies. They have no parameters, so what cannot be configured is the version that they judge.
const POLICIES: [&str; 3] = ["weaver-accounts", "weaver-deletions", "weaver-node-reports"];

pub(super) fn ours(line: &str) -> Option<Details> {
    let of = converts(line)?;
    of.starts_with(OURS)
        .then(|| Details::message(format!("the conversion webhook of {of} fails: {}", why(line))))
}

/// A write at v1alpha1 is judged as what would be stored, and refused where it cannot be converted.
pub(super) fn our_policy(line: &str) -> Option<Details> {
    let policy = after(line, "olicy '", &['\'']).or_else(|| after(line, "olicy \"", &['"']))?;
    POLICIES.contains(&policy).then(|| {
        let why = why(line);
        Details::message(format!(
            "the policy {policy} refuses what cannot be converted: the conversion webhook fails: {why}"
        ))
    })
}

pub(super) fn conversion_of_others(line: &str) -> Option<Details> {
    let of = converts(line)?;
    Some(of_others(line, &format!("the conversion webhook of {of}, which is not Config Weaver's,")))
}

pub(super) fn admission(line: &str) -> Option<Details> {
    let name = after(line, "failed calling webhook \"", &['"'])?;
    // The API server continues without it.
    (!line.contains("failing open")).then(|| of_others(line, &format!("the webhook {name}")))
}

/// The API server passes some groups on to programs, as metrics.k8s.io to metrics-server: while one does not answer, no
/// namespace is deleted.
pub(super) fn aggregated(line: &str) -> Option<Details> {
    // The parts of k3s say it until metrics-server runs, a minute after each start.
    let is_of_k3s = line.contains(".go:") && !has_any(line, &["memcache.go:", "namespace_controller.go:"]);
    // In a condition as YAML has it, the sentence is broken where the line is full.
    let is_silent = line.contains("the server is currently") || line.trim_end().ends_with(": the");
    if is_of_k3s || !is_silent {
        return None;
    }
    let group = after(line, "server APIs: ", &[':', ' ', ','])
        .or_else(|| after(line, "resource list for ", &[':', ' ']))
        .or_else(|| silent_group(line))?;
    Some(unserved(&format!("the API server gets no answer from the program that serves {group}")))
}

/// kubectl top, before there are figures.
pub(super) fn no_metrics(_: &str) -> Details {
    unserved("metrics-server does not answer, or has no figures yet")
}

fn unserved(message: &str) -> Details {
    Details::message(message)
        .advice(
            "metrics-server of k3s needs a minute after a start. Otherwise see why the program's pod does not run; if it is \
             gone for good, delete its APIService, which the first command lists: namespaces that are being deleted wait for it",
        )
        .command("kubectl get apiservices | grep -v True")
        .command("kubectl -n kube-system get pods -l k8s-app=metrics-server")
        .command("kubectl -n kube-system logs -l k8s-app=metrics-server | weaver explain")
        .hint()
}

fn converts(line: &str) -> Option<&str> {
    let is_of_it = line.contains(" failed: ") || line.contains(" returned ");
    is_of_it.then(|| after(line, "conversion webhook for ", &[' ', ',']))?
}

fn of_others(line: &str, whose: &str) -> Details {
    let details = Details::message(format!("{whose} fails: {}", why(line)));
    // Only what can be nothing but a namespace becomes part of a command.
    let host = after(line, "https://", &['/', ':', '?']).unwrap_or_default();
    let namespace = host.strip_suffix(".svc").and_then(|host| Some(host.split_once('.')?.1));
    match namespace.filter(|namespace| is_name(namespace)) {
        Some(namespace) => details
            .advice(
                "look at the program in that namespace; reinstall it, or, if it is gone for good, remove its webhook \
                 configuration or CRD",
            )
            .command(format!("kubectl -n {namespace} get pods,services,endpointslices")),
        None => details,
    }
}

/// What was answered: the URL, which every such line has, is no part of it.
fn why(line: &str) -> &'static str {
    let answer = line
        .rsplit_once(" failed: ")
        .or_else(|| line.split_once("failed calling webhook "))
        .map_or(line, |(_, rest)| rest);
    let answer = answer
        .split_once("https://")
        .and_then(|(_, rest)| rest.split_once("\": "))
        .map_or(answer, |(_, rest)| rest);
    let says = |words: &[&str]| words.iter().any(|words| answer.contains(words));
    if !line.contains(" failed: ") && line.contains(" returned ") {
        "it answers with objects that the API server did not ask for: it is of another version than the CRD"
    } else if says(&["not found"]) && says(&["service "]) {
        "its Service is not there"
    } else if says(&["no endpoints available"]) {
        "no pod of its Service is ready"
    } else if says(&["connection refused"]) {
        "nothing answers at its address"
    } else if says(&["has expired", "is not yet valid", "is before ", "is after "]) {
        "its certificate is not valid at this date"
    } else if says(&["certificate is valid for", "cannot validate certificate", "not valid for any names"]) {
        "its certificate does not have the name of its Service"
    } else if says(&["unable to load root certificates"]) {
        "its configuration has no valid CA, as long as nothing has written one into it"
    } else if says(&["x509: "]) {
        "its certificate is not signed by the CA in its configuration"
    } else if says(&["remote error: tls: "]) {
        "it has no certificate yet, or refuses the handshake"
    } else if says(&["HTTP response to HTTPS client", "first record does not look like"]) {
        "it speaks plain HTTP"
    } else if says(&["no route to host", "network is unreachable"]) {
        "its pod is not reachable: the pod network or a firewall is in between"
    } else if says(&["could not find the requested resource", "404"]) {
        "it does not know the path or the version that it is asked for"
    } else if says(&["EOF", "connection reset"]) {
        "it closes the connection without an answer"
    } else if says(&[
        "deadline exceeded",
        "Client.Timeout",
        "TLS handshake timeout",
        "i/o timeout",
        "timed out",
    ]) {
        "it does not answer in time"
    } else if says(&["no such host"]) {
        "the API server cannot resolve its name"
    } else {
        "it answers with an error"
    }
}
