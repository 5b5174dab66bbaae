//! The kernel's lines of one kill, and the cgroup whose limit was reached.

use super::details::{has_any, is_plain};

/// Lines of one kill have these, in this order.
pub(super) const NEEDLES: [&str; 4] =
    ["invoked oom-killer: ", "oom-kill:constraint=", "killed process ", "kill process "];

/// What a container's own limit is called.
pub(super) const OF_CONTAINER: &str = "its container reached its memory limit";

/// What the kernel said of the last process that it killed.
#[derive(Debug, Default)]
pub(super) struct LastKill {
    /// Its first line, until a later one says whose memory it is.
    asked: Option<(u64, String)>,
    /// Who reached a limit, in the words of a message.
    pub limited: Option<String>,
    pub is_limit: bool,
}

impl LastKill {
    pub(super) fn learn(&mut self, number: u64, line: &str) {
        if line.contains("invoked oom-killer: ") {
            *self = Self { asked: Some((number, line.to_owned())), ..Self::default() };
        } else if let Some(constraint) = Constraint::read(line) {
            *self = Self {
                asked: None,
                limited: constraint.limit.map(limited),
                is_limit: constraint.limit.is_some(),
            };
        } else if line.contains("Killed process ") || line.contains("Kill process ") {
            self.asked = None;
            self.is_limit = line.contains("Memory cgroup out of memory");
        }
    }

    /// The line by which the kernel began to look for a process, if nothing came after it.
    pub(super) fn asked(&self) -> Option<(u64, &str)> {
        self.asked.as_ref().map(|(number, line)| (*number, line.as_str()))
    }
}

/// `oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=…,oom_memcg=/kubepods/…,task_memcg=/kubepods/…,task=java,pid=812`
pub(super) struct Constraint<'a> {
    /// The cgroup whose limit was reached; none if the memory of the board ran out.
    pub limit: Option<&'a str>,
    pub process: Option<&'a str>,
}

impl<'a> Constraint<'a> {
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once("oom-kill:constraint=")?;
        let (before, after) = rest.split_once(",task_memcg=").unwrap_or((rest, ""));
        let limit = before.split_once(",oom_memcg=").map_or("", |(_, cgroup)| cgroup);
        // A process may call itself anything.
        let process = after.split_once(",task=").and_then(|(_, task)| task.rsplit_once(",pid="));
        Some(Self {
            limit: rest.starts_with("CONSTRAINT_MEMCG").then_some(limit),
            process: process.map(|(name, _)| name).filter(|name| !name.is_empty()),
        })
    }
}

pub(crate) fn segments(cgroup: &str) -> impl Iterator<Item = &str> {
    cgroup.split('/').filter(|segment| !segment.is_empty())
}

/// Whether a cgroup is that of all pods together, or below it.
pub(crate) fn is_below_pods(cgroup: &str) -> bool {
    segments(cgroup).any(|segment| {
        segment == "kubepods" || segment.starts_with("kubepods.") || segment.starts_with("kubepods-")
    })
}

/// Whether a cgroup is that of one pod, or below it.
pub(crate) fn is_below_one_pod(cgroup: &str) -> bool {
    is_below_pods(cgroup)
        && segments(cgroup).any(|segment| segment.starts_with("pod") || segment.contains("-pod"))
}

pub(super) fn limited(cgroup: &str) -> String {
    let is_container = has_any(cgroup, &["docker", "libpod", "containerd", "lxc"]);
    if is_below_one_pod(cgroup) || is_container {
        return OF_CONTAINER.to_owned();
    }
    if is_below_pods(cgroup) {
        return "the pods together reached the memory that the kubelet leaves to them".to_owned();
    }
    let unit = segments(cgroup).find(|segment| segment.ends_with(".service") && is_plain(segment));
    format!("{} reached its memory limit", unit.unwrap_or("its cgroup"))
}
