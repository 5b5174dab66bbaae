//! The commands of a Pi, for this stack: after `. .run/env` what the documentation and the findings print can
//! be typed unchanged, and means this stack instead of the machine.
//!
//! Small scripts in the stack's `bin/`: `weaver`, `kubectl`, `k3s` and `weaver-node-agent` with the paths of
//! this stack, a `systemctl` that knows its four services, and a `sudo` that needs none.

use std::path::Path;

use anyhow::Result;

use crate::agent::StackAgent;
use crate::files::{self, quoted};
use crate::kubectl::Kubectl;
use crate::layout::Layout;
use crate::programs::BuiltPrograms;
use crate::server_record::ServerRecord;

/// Writes the scripts and the file that a shell reads.
///
/// # Errors
/// A file cannot be written, or a program is not built.
pub fn write(
    layout: &Layout,
    programs: &BuiltPrograms,
    record: &ServerRecord,
    kubectl: &Kubectl,
) -> Result<()> {
    let bin = layout.bin();
    let own = |name: &str| quoted(&programs.bin_dir().join(name));
    let k3s = quoted(&record.binary.path);
    let flags = StackAgent::new(programs, layout, record.port).flags();
    let flags = flags.iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ");
    let names = format!(
        "--k3s {k3s} --systemctl {} --state-dir {}",
        quoted(&bin.join("systemctl")),
        quoted(&layout.dir().join("state"))
    );
    let agent = own("weaver-node-agent");
    let devstack = format!(
        "{} --run-dir {} --source {} --bin-dir {}",
        own("weaver-devstack"),
        quoted(layout.dir()),
        quoted(programs.source()),
        quoted(programs.bin_dir())
    );
    for (name, script) in [
        ("kubectl", kubectl.script()),
        ("k3s", format!("exec {k3s} \"$@\"\n")),
        (
            "weaver",
            format!(
                "if [ \"${{1-}} ${{2-}}\" = 'kubeconfig export' ]; then shift 2; set -- kubeconfig export --kubeconfig {} \"$@\"; \
                 fi\nexec {} \"$@\"\n",
                quoted(&layout.admin_kubeconfig()),
                own("weaver")
            ),
        ),
        ("sudo", "[ \"$1\" != -n ] || shift\nexec \"$@\"\n".to_owned()),
        (
            "weaver-node-agent",
            format!(
                "case \"$1 ${{2-}}\" in\ncheck\\ * | preflight\\ *) verb=$1; shift; exec {agent} \"$verb\" {flags} \"$@\" ;;\n\
                 'repair names') shift 2; exec {agent} repair names {flags} {names} \"$@\" ;;\n\
                 upgrade\\ * | rollback\\ *) echo 'error: the k3s of this stack lies in the cache of all stacks and is not \
                 replaced; K3S_BIN=FILE make up starts another' >&2; exit 2 ;;\nesac\nexec {agent} \"$@\"\n"
            ),
        ),
        // The flags that the agent puts in front are systemctl's own.
        (
            "systemctl",
            format!(
                "while :; do case ${{1-}} in -*) shift ;; *) break ;; esac; done\nverb=${{1-}}; shift\n\
                 [ \"${{1-}}\" != --no-block ] || shift\nexec {devstack} service \"$verb\" \"$@\"\n"
            ),
        ),
    ] {
        let script = if script.starts_with("#!") { script } else { format!("#!/bin/sh\n{script}") };
        files::replace(&bin.join(name), script.as_bytes(), 0o755)?;
    }
    let text = format!(
        "# For a shell: `. {}`. Then weaver, kubectl, k3s, systemctl and sudo mean this stack.\nexport WEAVER_STACK={}\n\
         export PATH={}:\"$PATH\"\nexport KUBECONFIG={}\nexport WEAVER_REPORT={}\n",
        layout.env_file().display(),
        quoted(layout.dir()),
        quoted(&bin),
        quoted(&layout.admin_kubeconfig()),
        quoted(&layout.runtime().join("report.json")),
    );
    files::replace(&layout.env_file(), text.as_bytes(), 0o644)
}
