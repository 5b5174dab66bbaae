//! Whose memory ran out: the board's, or that of a cgroup with a limit of its own.

use super::context::LogContext;
use super::details::{Details, after, has_any, is_plain};
use super::kill::{Constraint, OF_CONTAINER, limited};

fn killed_for_memory(who: &str) -> Details {
    Details::message(format!("the kernel killed {who} because memory ran out"))
}

fn killed_at_limit(who: &str, limited: &str) -> Details {
    let details = Details::message(format!("the kernel killed {who}: {limited}"));
    if limited != OF_CONTAINER {
        return details;
    }
    details
        .advice(
            "raise `resources.limits.memory` of the container, or have its program use less; the node itself is not short of memory \
             by this",
        )
        .command("kubectl get pods -A")
        .command("kubectl top pods -A --containers")
        .command("kubectl describe pod -n NAMESPACE POD")
}

/// A program that gets no memory to start another one, in the words of Go and of shells. kubernetes#10793
pub(super) fn no_fork(line: &str) -> Option<Details> {
    has_any(line, &["fork/exec ", "fork: "]).then(|| {
        Details::message("the kernel has no memory for another program")
            .advice("find out what uses the memory; run less on this board, and restart what has grown")
            .command("free -m")
            .command("kubectl top pods -A --sort-by=memory")
    })
}

/// The kernel's summary of a kill.
pub(super) fn constraint(line: &str) -> Option<Details> {
    let Constraint { limit, process } = Constraint::read(line)?;
    let who = process.unwrap_or("a process");
    Some(match limit {
        Some(cgroup) => killed_at_limit(who, &limited(cgroup)),
        None => killed_for_memory(who),
    })
}

/// The kernel's line of the process itself.
#[expect(clippy::unnecessary_wraps, reason = "the table's readers with a context return an Option")]
pub(super) fn killed(line: &str, context: &LogContext) -> Option<Details> {
    let process = after(line, "Killed process ", &[')'])
        .or_else(|| after(line, "Kill process ", &[')']))
        .and_then(|process| process.split_once('('));
    let who = process.map_or("a process", |(_, name)| name);
    if line.contains("Memory cgroup out of memory") {
        let limited = context.last_kill().limited.as_deref();
        return Some(killed_at_limit(who, limited.unwrap_or(OF_CONTAINER)));
    }
    Some(killed_for_memory(who))
}

/// The kernel's last word on a process that it killed, whatever the reason was.
pub(super) fn reaped(line: &str, context: &LogContext) -> Option<Details> {
    let name = after(line, "reaped process ", &[')']).and_then(|process| process.split_once('('));
    let who = name.map_or("a process", |(_, name)| name);
    (!context.last_kill().is_limit).then(|| killed_for_memory(who))
}

/// The kernel's first line of a kill, where it is the last one of a log.
pub(super) fn asked() -> Details {
    Details::message("the kernel looked for a process to kill: memory ran out, or a container reached its limit")
        .hint()
        .advice(
            "the lines after it say which: `Memory cgroup out of memory` is the limit of a container, `Out of memory` the \
             memory of the board",
        )
        .command("sudo dmesg | grep -iE 'oom-kill:|out of memory'")
}

/// The kubelet's message about a node.
pub(super) fn victim(line: &str) -> Details {
    let victim = after(line, "victim process: ", &[',', '"']).map(str::trim).filter(|name| !name.is_empty());
    killed_for_memory(victim.unwrap_or("a process"))
}

/// systemd's message about a unit.
pub(super) fn of_a_unit(line: &str) -> Details {
    let unit = line
        .split_whitespace()
        .find_map(|word| word.strip_suffix(':').filter(|word| word.ends_with(".service")));
    Details::message(format!("a process of {} was killed because memory ran out", unit.unwrap_or("a unit")))
}

/// systemd-oomd in the journal: `Killed /system.slice/k3s.service due to memory pressure for /system.slice being …`
pub(super) fn ended_by_oomd(line: &str) -> Option<Details> {
    let cgroup = after(line, "Killed /", &[' '])?;
    let unit = cgroup.rsplit('/').next().filter(|unit| is_plain(unit))?;
    Some(Details::message(format!("systemd-oomd ended {unit} because memory was running out")))
}

/// `sending SIGTERM to process 1290 uid 0 "k3s-server": badness 800, VmRSS 612 MiB`
pub(super) fn ended_by_earlyoom(line: &str) -> Option<Details> {
    let (_, rest) = line.split_once(" to process ")?;
    let name = after(rest, " \"", &['"'])?;
    rest.contains("badness ").then(|| {
        let name: String = name.chars().filter(|c| is_plain(&c.to_string())).collect();
        Details::message(format!("earlyoom ended {name} because memory was running out"))
    })
}

/// The kubelet's message about a container: in a status, in a list of pods.
pub(super) fn of_a_container(line: &str) -> Option<Details> {
    let is_status = line.contains("eason")
        || line.split_whitespace().nth(2) == Some("OOMKilled")
        || line.split_whitespace().nth(3) == Some("OOMKilled");
    is_status.then(|| {
        Details::message(
            "a container was killed because it reached its memory limit, or the node ran out of memory",
        )
    })
}
