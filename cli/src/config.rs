//! `weaver config`: writes and checks the card's `weaver.toml` before the card goes into the Pi.
//!
//! The checks are the code that runs on the Pi at each start. No file is overwritten, and nothing is written that the
//! Pi would refuse.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde_json::json;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::text_file::TextFile;
use weaver_diagnostics::weaver_toml::{
    self, FILE_LIMIT,
    companion::{self, UnreadableFile},
    encoding, foreign_files, network_config, network_lint, plan,
    user_data::{self, UserData},
    user_data_lint, verdict, wired_clash,
};
use weaver_diagnostics::yaml_node::SyntaxError;
use weaver_host::platform;

use crate::bounded_file;
use crate::stdout::{document, note, say, show};

/// Most bytes that are read of a file next to `weaver.toml`, as on the Pi.
const COMPANION_LIMIT: u64 = 256 << 10;

/// What every card has.
const SAMPLE: &str = include_str!("../../image/overlay-boot/weaver.toml");

#[derive(Subcommand)]
pub enum ConfigVerb {
    /// Print a `weaver.toml` with every key explained, or write it to a new file
    ///
    /// Exit status: 0 done; 1 the file could not be written; 2 wrong usage; 10 a given value is not valid.
    #[command(verbatim_doc_comment)]
    Init {
        /// File to write [default: standard output]
        file: Option<PathBuf>,
        /// Hostname
        #[arg(long, value_name = "NAME")]
        hostname: Option<String>,
        /// DNS name or address by which laptops reach the API server (repeatable)
        #[arg(long = "name", value_name = "NAME")]
        names: Vec<String>,
        /// Public SSH key, or the .pub file that contains it (repeatable)
        #[arg(long, value_name = "KEY|FILE")]
        ssh_key: Vec<String>,
        /// Join the k3s server at this URL, such as `https://raspi.lan:6443`, as an agent
        #[arg(long, value_name = "URL", conflicts_with = "names")]
        join: Option<String>,
    },
    /// Validate a `weaver.toml` and show what it sets
    ///
    /// Also reads `user-data` and `network-config` in the same directory, which may contradict it.
    ///
    /// Exit status: 0 valid; 1 the file could not be read; 2 wrong usage; 10 not valid, none of it would be applied.
    #[command(verbatim_doc_comment)]
    Check {
        /// File to check, or - for standard input
        #[arg(default_value = "/boot/firmware/weaver.toml")]
        file: PathBuf,
    },
}

pub fn run(verb: ConfigVerb) -> anyhow::Result<ExitCode> {
    match verb {
        ConfigVerb::Init { file, hostname, names, ssh_key, join } => {
            let text = filled(hostname.as_deref(), &names, &keys(&ssh_key)?, join.as_deref());
            let written = init(file.as_deref(), &text)?;
            if join.is_some() && written == ExitCode::SUCCESS {
                note!(
                    "set `token` in it to the output of `sudo cat /var/lib/rancher/k3s/server/node-token` \
                     on the server"
                );
            }
            Ok(written)
        }
        ConfigVerb::Check { file } => check(&file),
    }
}

/// The keys themselves, from keys or from files with keys.
fn keys(given: &[String]) -> anyhow::Result<Vec<String>> {
    given
        .iter()
        .map(|given| {
            if given.contains(' ') {
                return Ok(given.clone());
            }
            let text =
                fs::read_to_string(given).with_context(|| format!("cannot read the ssh key {given}"))?;
            if text.contains("PRIVATE KEY") {
                bail!("{given} is a private key, which must not leave its machine: pass {given}.pub");
            }
            Ok(text.trim().to_owned())
        })
        .collect()
}

/// The sample with these values instead of its examples.
fn filled(hostname: Option<&str>, names: &[String], keys: &[String], join: Option<&str>) -> String {
    let list = |values: &[String]| (!values.is_empty()).then(|| json!(values).to_string());
    let values = [
        ("#hostname =", hostname.map(|name| json!(name).to_string()), None),
        ("#names =", list(names), Some("#[api]")),
        ("#keys =", list(keys), Some("#[ssh]")),
        ("#role =", join.map(|url| format!("\"agent\"\nserver = {}", json!(url))), Some("#[k3s]")),
        // A secret is not for a command line.
        ("#token =", join.map(|_| "\"\"".to_owned()), Some("#[k3s]")),
    ];
    let mut text = String::new();
    for line in SAMPLE.lines() {
        let given = values.iter().find(|(key, value, _)| line.starts_with(key) && value.is_some());
        let is_section = values.iter().any(|(_, value, section)| *section == Some(line) && value.is_some());
        match given {
            Some((key, Some(value), _)) => text.extend([&key[1..], " ", value]),
            _ => text.push_str(if is_section { &line[1..] } else { line }),
        }
        text.push('\n');
    }
    text
}

fn init(file: Option<&Path>, text: &str) -> anyhow::Result<ExitCode> {
    if let Err(faults) = weaver_toml::parse(text.as_bytes()) {
        for fault in faults {
            note!("refused: {}; {}", fault.message, fault.remedy);
        }
        return Ok(ExitCode::from(exit_code::KNOWN_BAD));
    }
    let Some(path) = file else {
        document(text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut new = platform::create_new(path)
        .with_context(|| format!("cannot create {}; an existing file is not overwritten", path.display()))?;
    if let Err(error) = new.write_all(text.as_bytes()) {
        // A partial file would block the next attempt.
        let _ = fs::remove_file(path);
        return Err(error).with_context(|| format!("cannot write {}", path.display()));
    }
    note!("wrote {}: copy it to the card's first partition (the small FAT one)", path.display());
    Ok(ExitCode::SUCCESS)
}

fn check(path: &Path) -> anyhow::Result<ExitCode> {
    let file = path.display().to_string();
    let what = || format!("cannot read {file}");
    let mut bytes = Vec::new();
    let limit = FILE_LIMIT as u64 + 1;
    if path == Path::new("-") {
        io::stdin().take(limit).read_to_end(&mut bytes).with_context(what)?;
    } else {
        fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).with_context(what)?;
    }
    let read = match weaver_toml::parse(&bytes) {
        Ok(read) => read,
        Err(faults) => {
            show(finding_text::text(&verdict::invalid(&file, &faults).without_remedy()));
            return Ok(ExitCode::from(exit_code::KNOWN_BAD));
        }
    };
    let mut findings = Vec::new();
    let user_data = said(path, "user-data", user_data::read).unwrap_or_else(|why| {
        findings.extend(verdict::user_data_unknown(&read.config, why));
        UserData::default()
    });
    let other_wifi = said(path, "network-config", network_config::read).unwrap_or_else(|why| {
        findings.extend(verdict::network_config_unknown(&read.config, why));
        None
    });
    let other_wifi = other_wifi.map(|other| other.place);
    let owner = user_data.user.as_deref().unwrap_or(plan::ADMIN);
    match verdict::asked(&read.config, owner).as_slice() {
        [] => say(format_args!("{file} is valid, and has no settings")),
        asked => say(format_args!("{file} is valid; it sets: {}", asked.join(", "))),
    }
    let of_network = said(path, "network-config", |file| Ok(network_lint::lint(file, &read.config)));
    findings.extend(of_network.unwrap_or_default());
    let has_keys = !read.config.ssh_keys.is_empty();
    let of_users = said(path, "user-data", |file| Ok(user_data_lint::lint(file, true, has_keys)));
    findings.extend(of_users.unwrap_or_default());
    findings.extend(of_others(path));
    findings.extend(verdict::clash(&file, &read.config, &user_data));
    findings.extend(verdict::wifi_clash(&file, &read.config, other_wifi.as_ref()));
    let clash = |other: &TextFile| Ok(wired_clash::clash(&file, &read.config, other));
    findings.extend(said(path, "network-config", clash).unwrap_or_default());
    let is_file = path != Path::new("-");
    findings.extend(encoding::lint(path, |path| lossy(path).filter(|_| is_file)));
    // What the card has imported is not known here.
    findings.extend(verdict::join_unproven(&file, &read.config, &plan::KnownHost::default()));
    for finding in &findings {
        show(finding_text::text(finding));
    }
    Ok(ExitCode::SUCCESS)
}

/// The files next to `weaver.toml` that only other systems read, where that is a boot partition.
fn of_others(weaver_toml: &Path) -> Vec<Finding> {
    let Some(directory) = weaver_toml.parent().filter(|_| weaver_toml != Path::new("-")) else {
        return Vec::new();
    };
    let listed = fs::read_dir(if directory == Path::new("") { Path::new(".") } else { directory });
    let names =
        listed.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<_> = names.collect();
    if names.iter().any(|name| name == "config.txt") {
        return foreign_files::lint(directory, &names);
    }
    Vec::new()
}

/// The text of a file, with what is no UTF-8 replaced.
fn lossy(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(FILE_LIMIT as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a file next to `weaver.toml` holds; standard input has no file next to it.
fn said<T: Default>(
    weaver_toml: &Path,
    name: &str,
    read: impl Fn(&TextFile) -> Result<T, SyntaxError>,
) -> Result<T, UnreadableFile> {
    let path = weaver_toml.with_file_name(name);
    let shown = path.display().to_string();
    let text =
        (weaver_toml != Path::new("-")).then(|| bounded_file::text(&path, COMPANION_LIMIT)).transpose();
    let file = match text {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text.map(|text| text.map(|text| TextFile::new(shown.as_str(), text))),
    };
    companion::read(&shown, file, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop";

    #[test]
    fn what_was_given_stands_in_the_file_and_all_else_stays_a_comment() {
        assert_eq!(filled(None, &[], &[], None), SAMPLE);
        let text = filled(Some("pi"), &["pi.lan".into(), "10.0.0.2".into()], &[KEY.into()], None);
        let config = weaver_toml::parse(text.as_bytes()).unwrap().config;
        assert_eq!(config.hostname.unwrap().name, "pi");
        assert_eq!(config.api_names, ["pi.lan", "10.0.0.2"]);
        assert_eq!(config.ssh_keys, [KEY]);
        assert_eq!(text.lines().count(), SAMPLE.lines().count());
        assert!(text.contains("#[network]\n"));
        let one = weaver_toml::parse(filled(None, &["pi".into()], &[], None).as_bytes()).unwrap().config;
        assert_eq!((one.hostname, one.ssh_keys.len()), (None, 0));
    }

    #[test]
    fn what_cannot_stand_in_it_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weaver.toml");
        for (hostname, names) in
            [(Some("A B"), vec![]), (None, vec!["pi:6443".to_owned()]), (Some("a\"\nx = 1"), vec![])]
        {
            init(Some(&path), &filled(hostname, &names, &[], None)).unwrap();
            assert!(!path.exists());
        }
        init(Some(&path), &filled(Some("pi"), &[], &[], None)).unwrap();
        let error = init(Some(&path), SAMPLE).unwrap_err();
        assert!(format!("{error:#}").contains("is not overwritten"), "{error:#}");
        assert!(fs::read_to_string(&path).unwrap().contains("hostname = \"pi\""));
    }

    /// Whose card it is, decides what is on it.
    #[test]
    fn a_file_of_a_card_that_is_as_large_as_the_card_is_not_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let toml = directory.path().join("weaver.toml");
        for (size, is_read) in [(COMPANION_LIMIT, true), (COMPANION_LIMIT + 1, false)] {
            let text = vec![b'#'; usize::try_from(size).unwrap()];
            fs::write(directory.path().join("user-data"), text).unwrap();
            let known = said(&toml, "user-data", |_| Ok(()));
            assert_eq!(known.is_ok(), is_read, "{size}: {known:?}");
            assert!(known.is_ok() || known.unwrap_err().why.contains("larger than 256 KiB"));
        }
    }

    #[test]
    fn a_card_that_joins_has_its_server_and_room_for_the_token() {
        let text = filled(Some("worker"), &[], &[], Some("https://raspi.lan:6443"));
        let config = weaver_toml::parse(text.as_bytes()).unwrap().config;
        assert_eq!(config.role, weaver_toml::RoleSetting::Agent("https://raspi.lan:6443".to_owned()));
        assert_eq!(config.token, weaver_toml::SecretSetting::Keep);
        for bad in ["raspi.lan", "https://worker:6443", "https://a:1\"\nx = \"1"] {
            let text = filled(Some("worker"), &[], &[], Some(bad));
            assert!(weaver_toml::parse(text.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_private_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("id");
        fs::write(&path, "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
        let error = keys(&[path.display().to_string()]).unwrap_err().to_string();
        assert!(error.contains("must not leave its machine"), "{error}");
        fs::write(&path, format!("{KEY}\n")).unwrap();
        assert_eq!(keys(&[path.display().to_string(), KEY.to_owned()]).unwrap(), [KEY, KEY]);
    }
}
