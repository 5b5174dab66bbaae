//! A database that is not k3s' own, and the other servers of an etcd.

use super::details::{Details, after, has_any, is_name, looked_up};
use super::disks::is_number;
use crate::finding::{RESTART_K3S, Remedy, START_K3S, STOP_K3S};

/// What kine says of a database that it does not own; SQLite's troubles have codes of their own.
pub(super) fn external(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    if has(&["remaining connection slots", "too many connections", "too many clients"]) {
        return Some(no_connection_left());
    }
    if has(&["access denied for user", "password authentication failed", "no pg_hba.conf entry", "role \""]) {
        return Some(Details::message(
            "the database of k3s refuses the user, its password, or the address that k3s comes from",
        ));
    }
    if has(&["x509: ", "tls: ", "load tls certs"]) {
        return Some(Details::message(
            "k3s cannot make a TLS connection to its database: compare `datastore-cafile`, `datastore-certfile` and \
             `datastore-keyfile`",
        ));
    }
    if let Some(name) = looked_up(line).filter(|_| has(&["no such host"])) {
        return Some(Details::message(format!(
            "the database of k3s is at `{name}`, a name that is not found"
        )));
    }
    if let Some(address) = after(line, "dial tcp ", &[' ', '"']).map(|address| address.trim_end_matches(':'))
    {
        let details = Details::message(format!("the database of k3s does not answer at {address}"));
        return Some(match address.rsplit_once(':') {
            Some((host, port)) if is_name(host) && is_number(port) => details
                .advice(
                    "start the database, or correct `datastore-endpoint`; it must listen at an address that this host \
                     reaches, and not at 127.0.0.1 alone",
                )
                .command(format!("nc -vz {host} {port}"))
                .command("sudo grep -rlE 'datastore-endpoint|K3S_DATASTORE_ENDPOINT' /etc/rancher/k3s /etc/systemd/system"),
            _ => details,
        });
    }
    if has(&["driver: bad connection", "invalid connection", "failed to connect to `"]) {
        return Some(
            Details::message("the database of k3s closed the connection, or does not answer").hint(),
        );
    }
    refused(line)
}

/// What a database answers at the start, in the words of its driver: `pq: …`, `Error 1049 (42000): …`.
fn refused(line: &str) -> Option<Details> {
    let answer = after(line, "building kine: ", &['\n'])?.trim_end_matches('"');
    let is_of_mysql = after(answer, "Error ", &[' ', ':'])
        .is_some_and(|number| answer.starts_with("Error ") && number.bytes().all(|c| c.is_ascii_digit()));
    if !is_of_mysql && !answer.starts_with("pq: ") {
        return None;
    }
    let is_gone =
        has_any(answer, &["Unknown database", "does not exist", "permission denied to create database"]);
    if is_gone {
        let what =
            "the database that `datastore-endpoint` names does not exist, and its user may not create it";
        let remedy =
            Remedy::new("create the database, and grant its user all rights on it; then restart k3s");
        return Some(Details::message(what).remedy(remedy.command(RESTART_K3S)));
    }
    Some(Details::message(format!("the database of k3s refuses what k3s asks of it: {answer}"))
        .advice(
            "compare the version of the database with those that k3s supports (https://docs.k3s.io/datastore), and the \
             rights of its user",
        ))
}

/// Go's words for a URL, before anything is asked.
pub(super) fn not_a_url(_: &str) -> Details {
    Details::message("`datastore-endpoint` is not a URL that k3s can read")
        .advice(
            "write special characters of the user and the password with percent signs, as `%40` for @, `%23` for #, `%2F` for /, \
             `%3A` for :, then restart k3s",
        )
        .command("sudo grep -rlE 'datastore-endpoint|K3S_DATASTORE_ENDPOINT' /etc/rancher/k3s /etc/systemd/system")
        .command(RESTART_K3S)
}

/// The same, where another program may say it too.
pub(super) fn external_of_kine(line: &str) -> Option<Details> {
    // Not by k3s' name alone: its journal has what the kubelet quotes of pods.
    has_any(line, &["kine", "preparing server", "error in txn", "range on /registry/"])
        .then(|| external(line))?
}

/// kine's log; other programs ping databases as well.
pub(super) fn ping(line: &str) -> Option<Details> {
    let details = has_any(line, &["level=error", "ERRO[", "k3s["]).then(|| external(line))??;
    Some(if line.contains("k3s[") { details } else { details.hint() })
}

fn no_connection_left() -> Details {
    Details::message("the database of k3s has no connection left")
        .advice(
            "raise `max_connections` of the database, or find out what else uses it; each server of k3s takes some tens",
        )
        .command("# PostgreSQL: SELECT usename, count(*) FROM pg_stat_activity GROUP BY 1;")
        .command("# MySQL: SHOW PROCESSLIST;")
}

/// A server of the cluster that another one does not reach, again and again. A reboot takes some of these lines too.
pub(super) fn peer(line: &str) -> Option<Details> {
    let address = after(line, "dial tcp ", &[' ', '"', ',']).map(|address| address.trim_end_matches(':'));
    let whom = address.map_or_else(String::new, |address| format!(" at {address}"));
    let is_failure = has_any(line, &["could not connect", "unhealthy", "dial tcp"]);
    is_failure
        .then(|| Details::message(format!("etcd does not reach another server of the cluster{whom}")).hint())
}

/// How etcd says that it asks the other servers for their votes.
pub(super) const ELECTS: &str = "is starting a new election at term";

/// How it says that it reaches a majority.
pub(super) const ELECTED: &str = " elected leader ";

/// Once or twice at a start; each second, as long as there is no majority. k3s#3723
pub(super) fn elects(line: &str) -> Option<Details> {
    line.contains("raft").then(|| {
        Details::message(
            "etcd asks for votes again and again: this server does not reach enough of the others",
        )
        .hint()
    })
}

/// A server whose Node was deleted keeps data that the others no longer take. k3s#13498, k3s#2527
pub(super) fn removed(_: &str) -> Details {
    Details::message("this server was removed from the etcd cluster, and cannot join it again with the data that it has")
        .advice(
            "while another server of the cluster runs, move the data of this one away, and start it with `server` and `token` \
             of that one. Where no other is left, reset the cluster instead: `k3s server --cluster-reset`",
        )
        .command("# on another server: kubectl get nodes")
        .command("sudo grep -rlE '^server:|K3S_URL' /etc/rancher/k3s /etc/systemd/system")
        .command(STOP_K3S)
        .command("sudo mv /var/lib/rancher/k3s/server/db /root/db.removed")
        .command(
            "# only with `server: https://OTHER:6443` and without `cluster-init` in /etc/rancher/k3s/config.yaml: else a new, \
             empty cluster begins",
        )
        .command(START_K3S)
}

/// etcd's strict check of a change of its members: the majority is there.
pub(super) fn not_added(_: &str) -> Details {
    Details::message(
        "etcd adds no server at the moment: one of its members does not answer, or the last one that was added has not started",
    )
    .advice("wait until each server is Ready, and add one at a time; see which of the members does not answer")
    .command("kubectl get nodes -o wide")
    .command("# on another server: nc -vz ADDRESS-OF-THIS-ONE 2380")
    .hint()
}

/// As long as there is no leader, and once where the disk was slow.
pub(super) fn not_published(_: &str) -> Details {
    Details::message(
        "etcd of this server waits for a leader: the other servers do not answer, or the disk is too slow",
    )
    .hint()
}

pub(super) fn no_leader(_: &str) -> Details {
    Details::message("etcd has no leader: more than half of the servers have to reach each other").hint()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_database_answers_is_shown_and_sqlite_is_none() {
        let at_the_start =
            |answer: &str| external(&format!("creating storage endpoint: building kine: {answer}\""));
        for (answer, want) in [
            ("Error 1049 (42000): Unknown database 'k3s'", Some("does not exist")),
            ("pq: permission denied to create database", Some("does not exist")),
            ("pq: unsupported version", Some("asks of it: pq: unsupported version")),
            ("Error 1071: Specified key was too long", Some("asks of it: Error 1071")),
            ("Error opening the file", None),
            ("database disk image is malformed", None),
        ] {
            let message = at_the_start(answer).and_then(|details| details.message);
            assert_eq!(message.is_some(), want.is_some(), "{answer}: {message:?}");
            assert!(message.unwrap_or_default().contains(want.unwrap_or_default()), "{answer}");
        }
    }
}
