//! The findings of one check of this host. A finding is complete when it is added: no later pass edits it.
//!
//! What no single check knows is settled when it is added: on a node that joins a server, and where the API server runs
//! in a cluster of k3d, the remedies are those for it, and a failure that the owner has overridden is a warning. An
//! override never changes what is proven: whether the names to prove are known completely is recorded before overrides
//! apply.

use weaver_diagnostics::{
    finding::{Code, Finding, Severity},
    join,
    k3d::{engine::EngineProgram, verdict},
    k3s_upgrade::Role,
    overrides::Overrides,
};

/// Where k3s runs, which determines the commands.
#[derive(Debug, Clone)]
pub enum Runs {
    /// As a unit of this machine.
    Unit(Role),
    /// In this cluster of k3d, which must serve these names, and is at this port of the machine where it runs; `engine`
    /// has its containers.
    K3d { cluster: String, names: Vec<String>, port: Option<u16>, engine: EngineProgram },
}

impl Runs {
    /// A finding with the commands for where k3s runs.
    pub fn typed_there(&self, finding: Finding) -> Finding {
        match self {
            Self::Unit(Role::Server) => finding,
            Self::Unit(Role::Agent) => join::on_this_node(finding),
            Self::K3d { cluster, names, port, engine } => {
                verdict::on_k3d(finding, cluster, names, *port, *engine)
            }
        }
    }
}

/// A list that is being made.
#[derive(Debug)]
pub struct Findings {
    runs: Runs,
    overrides: Overrides,
    names_are_open: bool,
    list: Vec<Finding>,
}

impl Findings {
    /// An empty list, of a host whose k3s runs so and whose owner overrides this.
    pub const fn new(runs: Runs, overrides: Overrides) -> Self {
        Self { runs, overrides, names_are_open: false, list: Vec::new() }
    }

    /// Adds findings about the server that this node joins: their remedies already name the machine.
    pub fn extend_by_server(&mut self, found: impl IntoIterator<Item = Finding>) {
        for finding in found {
            self.names_are_open |= leaves_names_open(&finding);
            self.list.push(self.overrides.applied_to(finding));
        }
    }

    /// Whether, by the findings added so far, the list of the names to prove is incomplete.
    pub const fn names_are_open(&self) -> bool {
        self.names_are_open
    }

    /// The list; what is wrong with the override itself is the last of it.
    pub fn finish(mut self) -> Vec<Finding> {
        self.list.extend(self.overrides.fault());
        self.list
    }
}

/// Adds findings about this host.
impl Extend<Finding> for Findings {
    fn extend<T: IntoIterator<Item = Finding>>(&mut self, found: T) {
        let runs = self.runs.clone();
        self.extend_by_server(found.into_iter().map(|finding| runs.typed_there(finding)));
    }
}

/// Whether a finding means that the list of names itself is incomplete.
pub fn leaves_names_open(finding: &Finding) -> bool {
    match finding.code {
        Code::K3sConfigInvalid | Code::K3sConfigWrongType | Code::NameInvalid => {
            finding.severity() == Severity::Fail
        }
        Code::K3sFileUnreadable => matches!(finding.severity(), Severity::Fail | Severity::Unknown),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::overrides;

    #[test]
    fn what_is_overridden_is_a_warning_and_leaves_the_names_open_all_the_same() {
        let mut findings = Findings::new(Runs::Unit(Role::Server), overrides::parse("/o", "F-01\nno-code\n"));
        findings.extend([Finding::new(Code::MemoryCgroupOk, "m")]);
        assert!(!findings.names_are_open());
        findings.extend([Finding::new(Code::K3sConfigInvalid, "m")]);
        assert!(findings.names_are_open());
        let list = findings.finish();
        let seen: Vec<_> = list.iter().map(|finding| (finding.code, finding.severity())).collect();
        assert_eq!(
            seen,
            [
                (Code::MemoryCgroupOk, Severity::Ok),
                (Code::K3sConfigInvalid, Severity::Warn),
                (Code::OverrideNotACode, Severity::Warn),
            ]
        );
    }

    #[test]
    fn commands_name_the_unit_of_the_role_but_those_of_the_server() {
        for (role, want) in [(Role::Server, "restart k3s"), (Role::Agent, "restart k3s-agent")] {
            let misspelled = || [Finding::new(Code::SettingMisspelled, "m")];
            let mut findings = Findings::new(Runs::Unit(role), Overrides::default());
            findings.extend(misspelled());
            findings.extend_by_server(misspelled());
            let list = findings.finish();
            let typed = |at: usize| list[at].remedy.as_ref().unwrap().commands.last().unwrap();
            assert!(typed(0).ends_with(want), "{}", typed(0));
            assert!(typed(1).ends_with("restart k3s"), "{}", typed(1));
        }
    }
}
