//! The flags of k3s, from its systemd unit.
//!
//! k3s wipes its process arguments, so the unit is the place to read them from:
//! `ExecStart=` of the unit and its drop-ins, with the variables of
//! `Environment=` and `EnvironmentFile=` put in as systemd does.

pub mod faults;

use std::collections::BTreeMap;

use crate::{finding::Place, text_file::TextFile};

/// A value and the place that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub value: String,
    pub origin: Place,
}

/// The `datastore-endpoint` of k3s, without its value, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatastoreEndpoint {
    /// Whether it names another database than k3s' own file.
    pub is_elsewhere: bool,
    pub origin: Place,
}

impl DatastoreEndpoint {
    pub fn of(value: &str, origin: Place) -> Self {
        let path = value.strip_prefix("sqlite://").unwrap_or(value).split('?').next();
        // k3s' own file as k3s itself spells it; any other path is another file.
        Self { is_elsewhere: !matches!(path, None | Some("" | "./db/state.db")), origin }
    }
}

/// One flag of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Its name without dashes.
    pub name: String,
    /// Its value; empty where it has none.
    pub value: String,
    /// The line that sets it.
    pub origin: Place,
}

/// A word of a command and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// Quoted words are never split again.
    quoted: bool,
    /// It has a specifier, as `%H` for the host name, which only systemd resolves.
    has_specifier: bool,
    origin: Place,
}

/// How the unit starts k3s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct K3sStart {
    pub flags: Vec<Flag>,
    /// The configuration file that it names.
    pub config_file: Option<Setting>,
    /// The data directory of its environment: of all that may name one, the last to be asked.
    pub data_dir: Option<Setting>,
    /// The node's name of its environment, asked last too.
    pub node_name: Option<Setting>,
    /// The file of the token, the same.
    pub token_file: Option<Setting>,
    /// The datastore of its environment, asked last too.
    pub datastore: Option<DatastoreEndpoint>,
}

/// The environment files that the unit names; `true` where it may be missing.
pub fn environment_files(units: &[TextFile]) -> Vec<(String, bool)> {
    let given = given(units);
    let (files, _) = list(&given, "EnvironmentFile");
    let file = |value: &str| match value.strip_prefix('-') {
        Some(path) => (path.to_owned(), true),
        None => (value.to_owned(), false),
    };
    files.into_iter().map(|(_, value)| file(value)).collect()
}

/// How the unit starts k3s. `units` are the unit and its drop-ins in systemd's order.
pub fn start(units: &[TextFile], environment_files: &[TextFile]) -> K3sStart {
    let flags = flags(units, environment_files);
    // The environment first, then the first flag: k3s' own order.
    let by_flag = || {
        let flag = flags.iter().find(|flag| matches!(flag.name.as_str(), "config" | "c"))?;
        Some(Setting { value: flag.value.clone(), origin: flag.origin.clone() })
    };
    let variable = |name| variable(units, environment_files, name);
    let config_file =
        variable("K3S_CONFIG_FILE").or_else(by_flag).filter(|setting| !setting.value.is_empty());
    let (data_dir, node_name) = (variable("K3S_DATA_DIR"), variable("K3S_NODE_NAME"));
    let token_file = variable("K3S_TOKEN_FILE");
    let datastore = variable("K3S_DATASTORE_ENDPOINT")
        .map(|Setting { value, origin }| DatastoreEndpoint::of(&value, origin));
    K3sStart { flags, config_file, data_dir, node_name, token_file, datastore }
}

/// The flags of the command that the unit starts, in order. `units` are the
/// unit and its drop-ins in systemd's order.
pub fn flags(units: &[TextFile], environment_files: &[TextFile]) -> Vec<Flag> {
    let given = given(units);
    let (commands, _) = list(&given, "ExecStart");
    let command = commands.last().map_or_else(Vec::new, |(origin, value)| exec_words(value, origin));
    let variables = variables(units, environment_files);
    let words: Vec<_> = command.into_iter().flat_map(|word| expand(word, &variables)).collect();
    // Behind a shell's `-c` there is a script, and no flags of k3s.
    let is_k3s = |word: &Word| {
        let name = word.text.rsplit('/').next().filter(|_| !word.text.starts_with('-'));
        name.is_some_and(|name| name.starts_with("k3s") && !name.contains(char::is_whitespace))
    };
    words.iter().position(is_k3s).map_or_else(Vec::new, |at| parse_flags(&words[at..]))
}

/// The flags among the arguments that k3s is given, all of one origin.
pub fn flags_of(arguments: &[String], origin: &Place) -> Vec<Flag> {
    let word = |text: &String| Word {
        text: text.clone(),
        quoted: true,
        has_specifier: false,
        origin: origin.clone(),
    };
    parse_flags(&arguments.iter().map(word).collect::<Vec<_>>())
}

/// One variable of the environment that the unit gives, where it is not empty.
pub fn variable(units: &[TextFile], environment_files: &[TextFile], name: &str) -> Option<Setting> {
    variables(units, environment_files).remove(name).filter(|setting| !setting.value.is_empty())
}

/// The files win over the unit, as with systemd.
fn variables(units: &[TextFile], environment_files: &[TextFile]) -> BTreeMap<String, Setting> {
    let mut variables = BTreeMap::new();
    let given = given(units);
    let (lines, _) = list(&given, "Environment");
    for (origin, value) in lines {
        for word in split(value, origin) {
            if let Some((name, value)) = word.text.split_once('=') {
                let setting = Setting { value: value.to_owned(), origin: word.origin.clone() };
                if word.has_specifier {
                    variables.remove(name);
                } else {
                    variables.insert(name.to_owned(), setting);
                }
            }
        }
    }
    for file in environment_files {
        for (number, line) in (1..).zip(file.text.lines().map(str::trim)) {
            if !line.starts_with(['#', ';'])
                && let Some((name, value)) = line.split_once('=')
            {
                let value = value.trim().trim_matches(['"', '\'']).to_owned();
                let setting = Setting { value, origin: Place::line(&file.path, number) };
                variables.insert(name.trim().to_owned(), setting);
            }
        }
    }
    variables
}

/// A key and its value, and where it stands.
type Assignment = (Place, String, String);

/// All of them, in systemd's order.
fn given(units: &[TextFile]) -> Vec<Assignment> {
    units.iter().flat_map(settings).collect()
}

/// The values of a key that takes a list, and where one was last emptied: an assignment without a value takes back all
/// before it.
fn list<'a>(given: &'a [Assignment], key: &str) -> (Vec<(&'a Place, &'a str)>, Option<&'a Place>) {
    let (mut values, mut emptied) = (Vec::new(), None);
    for (place, _, value) in given.iter().filter(|(_, found, _)| found == key) {
        if value.is_empty() {
            values.clear();
            emptied = Some(place);
        } else {
            values.push((place, value.as_str()));
        }
    }
    (values, emptied)
}

/// `Key=value` of the `[Service]` section, continuation lines joined by `\n`.
fn settings(unit: &TextFile) -> Vec<Assignment> {
    let mut found: Vec<Assignment> = Vec::new();
    let mut in_service = false;
    let mut continued = false;
    for (number, line) in (1..).zip(unit.text.lines()) {
        let trimmed = line.trim();
        // Comments may stand between continued lines and do not end them.
        if trimmed.starts_with(['#', ';']) {
            if continued && let Some((_, _, value)) = found.last_mut() {
                value.push('\n');
            }
            continue;
        }
        let (body, more) = trimmed.strip_suffix('\\').map_or((trimmed, false), |body| (body, true));
        if continued {
            if let Some((_, _, value)) = found.last_mut() {
                value.push('\n');
                value.push_str(body);
            }
        } else if trimmed.starts_with('[') {
            in_service = trimmed == "[Service]";
        } else if in_service && let Some((key, value)) = body.split_once('=') {
            let origin = Place::line(&unit.path, number);
            found.push((origin, key.trim().to_owned(), value.trim_start().to_owned()));
        }
        continued = more && in_service && !found.is_empty();
    }
    found
}

fn exec_words(value: &str, origin: &Place) -> Vec<Word> {
    let value = value.trim_start_matches(['-', '@', ':', '+', '!', '|']);
    split(value, origin)
}

/// Splits as systemd does: white space outside quotes, both kinds of quotes,
/// backslash escapes, `%%`. Each line of the value counts one.
fn split(value: &str, origin: &Place) -> Vec<Word> {
    let mut words = Vec::new();
    for (offset, line) in (0..).zip(value.split('\n')) {
        let origin = Place { line: origin.line.map(|l| l + offset), ..origin.clone() };
        let mut current: Option<Word> = None;
        let mut quote = None;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            if quote.is_none() && c.is_whitespace() {
                words.extend(current.take());
                continue;
            }
            let word = current.get_or_insert_with(|| Word {
                text: String::new(),
                quoted: false,
                has_specifier: false,
                origin: origin.clone(),
            });
            match c {
                '\'' | '"' if quote.is_none() => (quote, word.quoted) = (Some(c), true),
                _ if quote == Some(c) => quote = None,
                '\\' => match chars.next() {
                    Some('s') => word.text.push(' '),
                    Some('t') => word.text.push('\t'),
                    Some('n') => word.text.push('\n'),
                    Some(other) => word.text.push(other),
                    None => word.text.push('\\'),
                },
                '%' if chars.peek() == Some(&'%') => {
                    chars.next();
                    word.text.push('%');
                }
                '%' => {
                    word.has_specifier |= chars.peek().is_some_and(char::is_ascii_alphabetic);
                    word.text.push('%');
                }
                _ => word.text.push(c),
            }
        }
        words.extend(current.take());
    }
    words
}

/// `${NAME}` anywhere, `$NAME` as a word of its own (which then is split).
fn expand(word: Word, variables: &BTreeMap<String, Setting>) -> Vec<Word> {
    let value = |name: &str| variables.get(name).map_or("", |setting| setting.value.as_str());
    if !word.quoted
        && let Some(name) = word.text.strip_prefix('$')
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        return split(value(name), &word.origin)
            .into_iter()
            .map(|part| Word { origin: word.origin.clone(), ..part })
            .collect();
    }
    let mut text = String::new();
    let mut rest = word.text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        rest = if let Some((name, tail)) = after.strip_prefix('{').and_then(|a| a.split_once('}')) {
            text.push_str(value(name));
            tail
        } else {
            text.push('$');
            after.strip_prefix('$').unwrap_or(after)
        };
    }
    text.push_str(rest);
    vec![Word { text, ..word }]
}

/// `--name=value` and `--name value`; the words before the first dash are the program and its
/// subcommand. A flag whose value only systemd knows is left out: `--node-name %H` is k3s' default.
fn parse_flags(words: &[Word]) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    let mut may_take_value = false;
    for word in words {
        let name = word.text.trim_start_matches('-');
        if name.len() < word.text.len() {
            let (name, value) = name.split_once('=').map_or((name, None), |(n, v)| (n, Some(v)));
            may_take_value = value.is_none() && !word.has_specifier;
            if !word.has_specifier {
                flags.push(Flag {
                    name: name.to_owned(),
                    value: value.unwrap_or_default().to_owned(),
                    origin: word.origin.clone(),
                });
            }
        } else if may_take_value {
            may_take_value = false;
            if word.has_specifier {
                flags.pop();
            } else if let Some(flag) = flags.last_mut() {
                flag.value.clone_from(&word.text);
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: &str = "\
[Unit]
Description=Lightweight Kubernetes
[Service]
Type=notify
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/systemd/system/k3s.service.env
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s \\
    server \\
# a note in between
\t'--tls-san' \\
\t'pi.example' \\
\t'--tls-san=b,c' --disable-agent \\
\t\"--node-name=a b\" ${PORT} $MORE
";

    fn flat(flags: &[Flag]) -> Vec<String> {
        flags
            .iter()
            .map(|f| format!("{}={}@{}", f.name, f.value, f.origin.line.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn the_unit_that_k3s_installs() {
        let units = [TextFile::new("/etc/systemd/system/k3s.service", UNIT)];
        let env =
            [TextFile::new("env", "# note\nPORT=--https-listen-port=16443\nMORE=\"--tls-san d --x\"\n")];
        assert_eq!(
            flat(&flags(&units, &env)),
            [
                "tls-san=pi.example@11",
                "tls-san=b,c@13",
                "disable-agent=@13",
                "node-name=a b@14",
                "https-listen-port=16443@14",
                "tls-san=d@14",
                "x=@14"
            ]
        );
        assert_eq!(
            environment_files(&units),
            [("/etc/default/%N".into(), true), ("/etc/systemd/system/k3s.service.env".into(), true)]
        );
    }

    #[test]
    fn a_drop_in_resets_the_command() {
        let units = [
            TextFile::new("u", "[Service]\nExecStart=k3s server --tls-san a\n"),
            TextFile::new(
                "d",
                "[Service]\nEnvironment=\"N=b\" M=1\nExecStart=\nExecStart=-k3s server --tls-san ${N}\n",
            ),
        ];
        assert_eq!(flat(&flags(&units, &[])), ["tls-san=b@4"]);
    }

    #[test]
    fn an_assignment_without_a_value_empties_each_list() {
        const LISTS: &str = "[Service]\nExecStart=k3s server --debug $MORE\nEnvironment=MORE=--rootless\nEnvironmentFile=/a\n";
        let flags_with = |line: &str| {
            let unit = TextFile::new("/k3s.service", format!("{LISTS}{line}\n"));
            flat(&flags(&[unit], &[]))
        };
        let files_with = |line: &str| {
            let unit = TextFile::new("/k3s.service", format!("{LISTS}{line}\nEnvironmentFile=/b\n"));
            environment_files(&[unit])
        };
        assert_eq!(flags_with(""), ["debug=@2", "rootless=@2"]);
        assert_eq!(flags_with("Environment="), ["debug=@2"]);
        assert!(flags_with("ExecStart=").is_empty());
        assert_eq!(files_with(""), [("/a".into(), false), ("/b".into(), false)]);
        assert_eq!(files_with("EnvironmentFile="), [("/b".into(), false)]);
    }

    #[test]
    fn a_variable_with_the_place_that_counts() {
        let units = [TextFile::new("u", "[Service]\nEnvironment=A=1 \"B=x y\" \\\n C=3\nEnvironment=D=\n")];
        let files = [TextFile::new("e", "# C=0\n#\nA='2'\n")];
        let shown = |name| {
            variable(&units, &files, name).map(|setting| format!("{} {}", setting.origin, setting.value))
        };
        assert_eq!(shown("A").as_deref(), Some("e:3 2"));
        assert_eq!(shown("B").as_deref(), Some("u:2 x y"));
        assert_eq!(shown("C").as_deref(), Some("u:3 3"));
        assert_eq!(shown("D"), None);
        let reset = [units[0].clone(), TextFile::new("d", "[Service]\nEnvironment=\nEnvironment=C=4\n")];
        assert_eq!(variable(&reset, &[], "A"), None);
        assert_eq!(variable(&reset, &[], "C").unwrap().value, "4");
    }

    #[test]
    fn flags_are_those_behind_k3s_and_not_those_of_what_starts_it() {
        for (command, want) in [
            ("/usr/bin/nice -n 10 /usr/local/bin/k3s server --tls-san a", &["tls-san=a@2"][..]),
            ("/usr/bin/nsenter --net=/run/netns/k3s /usr/local/bin/k3s server --tls-san a", &["tls-san=a@2"]),
            ("/bin/sh -c \"exec /usr/local/bin/k3s server --tls-san $(hostname)\"", &[]),
            ("/bin/bash -ec '. /etc/k3s.env; /usr/local/bin/k3s server'", &[]),
            ("@/opt/bin/k3s-arm64 k3s server -c /a.yaml", &["c=/a.yaml@2"]),
            ("/usr/local/bin/other --config /b.yaml", &[]),
        ] {
            let units = [TextFile::new("u", format!("[Service]\nExecStart={command}\n"))];
            assert_eq!(flat(&flags(&units, &[])), want, "{command}");
        }
    }

    #[test]
    fn a_space_after_the_equals_sign_stays_visible() {
        let units = [TextFile::new("u", "[Service]\nExecStart=k3s server '--tls-san= 1.2.3.4'\n")];
        assert_eq!(flags(&units, &[])[0].value, " 1.2.3.4");
    }

    #[test]
    fn a_value_that_only_systemd_knows_is_left_out() {
        let text = "[Service]\nEnvironment=K3S_NODE_NAME=%H K3S_DATA_DIR=/d\nExecStart=k3s server --node-name %H \
                    --tls-san=%l.lan --tls-san pi --kubelet-arg=eviction-hard=nodefs.available<15%% --debug\n";
        let started = start(&[TextFile::new("u", text)], &[]);
        assert_eq!(
            flat(&started.flags),
            ["tls-san=pi@3", "kubelet-arg=eviction-hard=nodefs.available<15%@3", "debug=@3"]
        );
        assert_eq!((started.node_name, started.data_dir.unwrap().value.as_str()), (None, "/d"));
    }

    #[test]
    fn no_unit_means_no_flags() {
        assert_eq!(flags(&[], &[]), []);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(\\[Service\\]|ExecStart=|Environment=|[a-z$\\{\\}'\"\\\\ =-]|\n){0,30}") {
            let units = [TextFile::new("u", text)];
            let _ = (flags(&units, &units), environment_files(&units));
        }
    }
}
