//! A template of containerd's configuration, which k3s fills in at each start. Pure.
//!
//! k3s takes `config-v3.toml.tmpl`, else `config.toml.tmpl`, instead of its own; `{{ template "base" . }}` puts its own
//! in. A template that Go or containerd cannot read keeps k3s from starting, and no message names the file.

mod values;

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity};
use crate::text_file::TextFile;

/// The directory of both, below k3s' data.
pub const DIRECTORY: &str = "agent/etc/containerd";
/// The templates, the first that is there counts, each with the version of what k3s puts in.
pub const FILES: [(&str, TemplateVersion); 2] =
    [("config-v3.toml.tmpl", TemplateVersion::V3), ("config.toml.tmpl", TemplateVersion::V2)];

/// The version of containerd's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateVersion {
    V2,
    V3,
}

impl TemplateVersion {
    /// Tables that k3s' own configuration always has.
    const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::V2 => &[
                "plugins.io.containerd.grpc.v1.cri",
                "plugins.io.containerd.grpc.v1.cri.containerd",
                "plugins.io.containerd.grpc.v1.cri.containerd.runtimes.runc",
                "plugins.io.containerd.grpc.v1.cri.containerd.runtimes.runc.options",
                "plugins.io.containerd.grpc.v1.cri.registry",
            ],
            Self::V3 => &[
                "plugins.io.containerd.grpc.v1.cri",
                "plugins.io.containerd.cri.v1.runtime",
                "plugins.io.containerd.cri.v1.runtime.containerd.runtimes.runc",
                "plugins.io.containerd.cri.v1.runtime.containerd.runtimes.runc.options",
                "plugins.io.containerd.cri.v1.images",
                "plugins.io.containerd.cri.v1.images.registry",
            ],
        }
    }
}

/// How a template puts k3s' own configuration in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Absent,
    WithoutData,
    At(u64),
}

/// What is wrong with it; `by_systemd` says whether systemd starts k3s, which then has it manage the cgroups.
pub fn lint(file: &TextFile, version: TemplateVersion, by_systemd: bool) -> Vec<Finding> {
    let mut found = TemplateLint { file, findings: Vec::new() };
    let base = match base(&file.text) {
        Ok(base) => base,
        Err(line) => {
            let what = "an action begins with `{{` and has no `}}`: k3s does not start with it";
            found.stops(Some(line), what, "close it");
            return found.findings;
        }
    };
    found.actions();
    if !found.findings.is_empty() {
        return found.findings;
    }
    let lines: Vec<(u64, &str)> = (1..).zip(file.text.lines().map(code)).collect();
    match base {
        Base::Absent if lines.iter().any(|(_, line)| is_of_version_1(line)) => {
            let what = "it is a configuration of version 1, with which containerd 2 does not start (k3s v1.31.6, v1.32.2 and \
                newer)";
            let remedy = "begin the template with {{ template \"base\" . }} and keep only what differs, in tables of \
                version 3 in config-v3.toml.tmpl";
            if version == TemplateVersion::V3 {
                found.stops(None, what, remedy);
            } else {
                found.fault(None, what, remedy);
            }
        }
        Base::Absent => found.whole(&lines),
        Base::WithoutData => {
            let what =
                "`{{ template \"base\" }}` has no dot, so k3s fills in nothing and containerd does not start";
            found.stops(None, what, "write {{ template \"base\" . }}");
        }
        Base::At(line) => found.addition(&lines, line, version),
    }
    if let Some(line) = values::bare_word(&lines) {
        let what =
            "a value that is not a number, date or boolean needs quotes: containerd does not start with it";
        found.stops(Some(line), what, "write the value in double quotes");
    }
    if let Some(line) = values::open_header(&lines) {
        let what = "the header of a table has no `]`: containerd does not start with it";
        found.stops(Some(line), what, "close it");
    }
    for (line, text) in &lines {
        if by_systemd && text.replace(' ', "") == "SystemdCgroup=false" {
            let what = "this makes containerd manage cgroups itself, while k3s makes the kubelet use systemd: two \
                cgroup managers make the node unstable";
            found.fault(Some(*line), what, "write SystemdCgroup = {{ .SystemdCgroup }}");
        }
        let Some(table) = header(text) else { continue };
        let of_containerd_1 = table.strip_prefix("plugins.io.containerd.grpc.v1.cri.");
        if let Some(rest) = of_containerd_1.filter(|_| version == TemplateVersion::V3) {
            let meant = if rest.starts_with("registry") { "images" } else { "runtime" };
            let what = "a table of containerd 1 has no effect in a configuration of version 3";
            let remedy = format!("write it as plugins.'io.containerd.cri.v1.{meant}'.{rest}");
            found.fault(Some(*line), what, &remedy);
        } else if matches!(base, Base::At(_)) && table.contains(".registry.mirrors.") {
            let what =
                "containerd takes no mirrors next to the config_path that k3s sets, and does not start";
            found.fault(Some(*line), what, "write the mirror into /etc/rancher/k3s/registries.yaml");
        }
    }
    found.findings
}

struct TemplateLint<'a> {
    file: &'a TextFile,
    findings: Vec<Finding>,
}

impl TemplateLint<'_> {
    fn fault(&mut self, line: Option<u64>, what: &str, remedy: &str) {
        let finding = self.finding(line, what, remedy).milder(Severity::Warn);
        self.findings.push(finding);
    }

    /// What k3s does not start with, whatever its version puts in.
    fn stops(&mut self, line: Option<u64>, what: &str, remedy: &str) {
        let finding = self.finding(line, what, remedy);
        self.findings.push(finding);
    }

    /// Actions that Go's templates do not have, or that k3s has no value for.
    fn actions(&mut self) {
        for (line, action) in actions(&self.file.text) {
            if has_single_quotes(&action) {
                let what = "an action has single quotes, which Go's templates do not know: k3s does not start with it";
                self.stops(Some(line), what, "write double quotes: {{ template \"base\" . }}");
            } else if let Some(field) = REMOVED.iter().find(|field| action.contains(*field)) {
                let what = format!("k3s has no {field} since v1.25, and does not start with it");
                let remedy = "begin the template with {{ template \"base\" . }} and keep only what differs";
                self.stops(Some(line), &what, remedy);
            }
        }
    }

    fn finding(&self, line: Option<u64>, what: &str, remedy: &str) -> Finding {
        let place = Place { file: self.file.path.clone(), line, column: None };
        let remedy =
            Remedy::new(format!("{remedy}; k3s reads the template when it starts")).command(RESTART_K3S);
        Finding::at(Code::ContainerdTemplateFault, place, what).remedy(remedy)
    }

    /// A template that is all there is.
    fn whole(&mut self, lines: &[(u64, &str)]) {
        let says = |word: &str| lines.iter().any(|(_, line)| line.contains(word));
        let lacks: Vec<&str> = [
            ("SystemdCgroup", "who manages cgroups, so that the node is unstable"),
            ("config_path", "the registries, so that registries.yaml has no effect"),
        ]
        .into_iter()
        .filter_map(|(word, why)| (!says(word)).then_some(why))
        .collect();
        if !lacks.is_empty() {
            let what = format!("it replaces all that k3s would write, and lacks {}", lacks.join("; and "));
            self.fault(
                None,
                &what,
                "begin the template with {{ template \"base\" . }} and keep only what differs",
            );
        }
    }

    /// A template that adds to k3s' own.
    fn addition(&mut self, lines: &[(u64, &str)], base: u64, version: TemplateVersion) {
        let own = version.tables();
        let mut has_table = false;
        for (line, text) in lines {
            if let Some(table) = header(text) {
                has_table |= *line > base;
                if own.contains(&table.as_str()) {
                    let what = format!(
                        "k3s' own configuration has [{table}] already: containerd does not start with both"
                    );
                    self.fault(
                        Some(*line),
                        &what,
                        "remove the table; or remove the line with the base and write the whole configuration yourself",
                    );
                }
            } else if *line > base && !has_table && values::is_assignment(text) {
                let what = "a line after the base without its own table header belongs to the last table of the base";
                self.fault(Some(*line), what, "write the header of its table above it");
                has_table = true;
            }
        }
    }
}

/// A line without its comment, where it has one that begins with the line.
fn code(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') { "" } else { line }
}

/// The name of a table, without the quotes of its parts. One with an action in it has none yet.
fn header(line: &str) -> Option<String> {
    let name = line.strip_prefix('[')?.split(']').next()?;
    (!name.starts_with('[') && !name.contains("{{")).then(|| name.replace(['\'', '"', ' '], ""))
}

/// Values of templates of older versions.
const REMOVED: [&str; 1] = [".NodeConfig.NoFlannel"];

/// A template that k3s does not read, because `config-v3.toml.tmpl` is there.
pub fn not_read(path: &str) -> Finding {
    let place = Place::file(path);
    let message = format!("{place}: k3s reads config-v3.toml.tmpl in its place");
    let remedy =
        Remedy::new("move what it adds to config-v3.toml.tmpl, in tables of version 3, and remove it");
    Finding::new(Code::ContainerdTemplateFault, message)
        .saw(place, "not read")
        .remedy(remedy.command(RESTART_K3S))
        .milder(Severity::Warn)
}

/// The configuration itself, changed by hand where there is no template: what k3s writes begins with a note.
pub fn overwritten(file: &TextFile) -> Option<Finding> {
    if file.text.contains("File generated by") {
        return None;
    }
    let what = "k3s writes this file again at each start, so what was changed by hand is lost";
    let remedy = Remedy::new(
        "write what differs into config-v3.toml.tmpl next to it (with containerd 1, before k3s v1.31.6 and v1.32.2, \
         config.toml.tmpl), below a first line {{ template \"base\" . }}",
    );
    let finding = Finding::at(Code::ContainerdTemplateFault, Place::file(&file.path), what);
    Some(finding.remedy(remedy.command(RESTART_K3S)).milder(Severity::Warn))
}

/// A table that only the configuration of version 1 names so.
fn is_of_version_1(line: &str) -> bool {
    let table = header(line).unwrap_or_default();
    ["plugins.cri", "plugins.opt", "plugins.linux"]
        .iter()
        .any(|old| table.strip_prefix(old).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// A character may be in single quotes, and nothing else.
fn has_single_quotes(action: &str) -> bool {
    let mut rest = action;
    while let Some(at) = rest.find(['"', '`', '\'']) {
        let (quote, after) = (&rest[at..=at], &rest[at + 1..]);
        let Some((inside, behind)) = after.split_once(quote) else { return false };
        if quote == "'" && inside.chars().count() != 1 && !inside.starts_with('\\') {
            return true;
        }
        rest = behind;
    }
    false
}

/// The actions but for comments, each with its line.
fn actions(text: &str) -> Vec<(u64, String)> {
    let (mut rest, mut line, mut found) = (text, 1, Vec::new());
    while let Some((before, after)) = rest.split_once("{{") {
        line += before.matches('\n').count() as u64;
        let Some((action, behind)) = after.split_once("}}") else { break };
        let inside = action.trim_start_matches('-').trim_end_matches('-').trim();
        if !inside.starts_with("/*") {
            found.push((line, inside.to_owned()));
        }
        line += action.matches('\n').count() as u64;
        rest = behind;
    }
    found
}

/// Whether the actions are whole, and what they make of the base.
///
/// # Errors
/// The line of an action that does not end.
fn base(text: &str) -> Result<Base, u64> {
    let mut base = Base::Absent;
    let (mut rest, mut line) = (text, 1);
    let breaks = |text: &str| text.matches('\n').count() as u64;
    while let Some((before, after)) = rest.split_once("{{") {
        line += breaks(before);
        let (action, behind) = after.split_once("}}").ok_or(line)?;
        let action = action.trim_start_matches('-').trim_end_matches('-').trim();
        if let Some(arguments) = action.strip_prefix("template") {
            let arguments = arguments.trim().replace('`', "\"");
            if let Some(data) = arguments.strip_prefix("\"base\"") {
                base = if data.trim().is_empty() { Base::WithoutData } else { Base::At(line) };
            }
        }
        line += breaks(action);
        rest = behind;
    }
    Ok(base)
}

#[cfg(test)]
mod tests;
